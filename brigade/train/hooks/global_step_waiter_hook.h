#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Delays a worker's first step until the job has reached a step, so that workers start one after
/// another. The step throws kDeadlineExceeded, with the current step, after `max_wait`.
struct GlobalStepWaiterHook {
  /// The step that the job must have reached.
  std::int64_t wait_until_step = 0;
  /// Returns the current step of the job. Empty: the global step of this training, which another
  /// worker must increment; workers without collectives fetch it with the state.
  std::function<std::int64_t()> global_step = {};
  /// How often to ask for the step.
  std::chrono::milliseconds poll = std::chrono::milliseconds(500);
  /// TensorFlow has no limit.
  std::chrono::milliseconds max_wait = std::chrono::seconds(7200);

  /// Throws kInvalidArgument for a negative step or a poll that is not above 0.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
