#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Stops a training after a number of steps. A training that is resumed at the last step makes no
/// further step. All workers must have the same number, and all stop after exactly that step; among
/// `SessionOptions::chief_only_hooks` it is the chief's own request (RequestedBy). Exactly one of
/// the two must be set.
struct StopAtStepHook {
  /// The number of steps of this run of the program. Refused in several workers without
  /// collectives, which begin at different steps.
  std::optional<std::int64_t> num_steps = std::nullopt;
  /// The last global step, also for a resumed training. Workers without collectives, which count
  /// together, may make a few steps more: each ends with the first step after which it is reached.
  std::optional<std::int64_t> last_step = std::nullopt;

  /// Throws kInvalidArgument unless exactly one is set, and for one below 0. The session throws it
  /// for `num_steps` where that is refused.
  std::shared_ptr<SessionRunHook> hook() const;
};

/// Ends each evaluation after a number of batches (TensorFlow: StopAfterNEvalsHook). May be used
/// for several evaluations, one after the other. All workers must have the same number.
struct StopAfterNEvalsHook {
  /// Required.
  std::int64_t num_evals = 0;
  /// Whether to log the progress, ten times per evaluation: `Evaluation [10/100]`.
  bool log_progress = true;

  /// Throws kInvalidArgument for `num_evals` below 1.
  std::shared_ptr<SessionRunHook> hook() const;
};

/// Ends a training whose loss is NaN or infinite (TensorFlow: NanTensorHook).
struct NanHook {
  /// The name of the step's value that must be finite.
  std::string value = "loss";
  /// kFail throws kDataLoss with the value and the step. kStop stops with a warning; the state is
  /// not saved, because its weights may be NaN. Other workers may lack this hook, so several that
  /// train together stop one step later (RequestedBy::kThisWorker).
  enum class Then { kFail, kStop } then = Then::kFail;
  /// The number of steps from one check to the next; a check waits for the device.
  std::int64_t every_steps = 1;

  /// Throws kInvalidArgument unless `every_steps` is above 0.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
