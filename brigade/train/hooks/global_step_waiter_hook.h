#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

struct GlobalStepWaiterOptions {
  std::int64_t wait_until_step = 0;
  /// Returns the current step of the job. Empty: the global step of this training, which another
  /// worker must increment.
  std::function<std::int64_t()> global_step = {};
  std::chrono::milliseconds poll = std::chrono::milliseconds(500);
  /// TensorFlow has no limit.
  std::chrono::milliseconds max_wait = std::chrono::seconds(7200);
};

/// Delays a worker's first step until the job has reached a step, so that workers start one after
/// another.
class GlobalStepWaiterHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument for a negative step or a poll that is not above 0.
  explicit GlobalStepWaiterHook(GlobalStepWaiterOptions options);
  /// Throws kDeadlineExceeded, with the current step. Returns early if the session should stop.
  void before_run(SessionContext& context) override;

 private:
  GlobalStepWaiterOptions options_;
  bool is_reached_ = false;
};

}  // namespace brigade::train
