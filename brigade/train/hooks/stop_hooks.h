#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Stops a training after a number of steps. A training that is resumed at the last step makes no
/// further step. All workers must have the same number. Exactly one of the two must be set.
struct StopAtStepHook {
  /// The number of steps of this run of the program.
  std::optional<std::int64_t> num_steps = std::nullopt;
  /// The last global step, also for a resumed training.
  std::optional<std::int64_t> last_step = std::nullopt;

  /// Throws kInvalidArgument unless exactly one is set, and for one below 0.
  std::shared_ptr<SessionRunHook> hook() const;
};

/// Ends each evaluation after a number of batches (TensorFlow: StopAfterNEvalsHook). May be used
/// for several evaluations, one after the other.
struct StopAfterNEvalsHook {
  /// Required.
  std::int64_t num_evals = 0;
  /// Whether to log the progress, ten times per evaluation: `Evaluation [10/100]`.
  bool log_progress = true;

  /// Throws kInvalidArgument for `num_evals` below 1.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
