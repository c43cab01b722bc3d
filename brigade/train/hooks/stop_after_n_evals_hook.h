#pragma once

#include <cstdint>
#include <memory>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Ends each evaluation after a number of batches (TensorFlow: StopAfterNEvalsHook). May be used
/// for several evaluations, one after the other.
struct StopAfterNEvalsHook {
  std::int64_t num_evals = 1;
  /// Whether to log the progress, ten times per evaluation: `Evaluation [10/100]`.
  bool log_progress = true;

  /// Throws kInvalidArgument for `num_evals` below 1.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
