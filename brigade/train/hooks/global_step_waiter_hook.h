#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

struct GlobalStepWaiterOptions {
  std::int64_t wait_until_step = 0;
  /// The step that is waited for. Empty: the training's own, which somebody else must count then.
  std::function<std::int64_t()> global_step = {};
  std::chrono::milliseconds poll = std::chrono::milliseconds(500);
  /// TensorFlow waits for ever.
  std::chrono::milliseconds max_wait = std::chrono::seconds(7200);
};

/// Holds a worker's first step until the job has come so far, so that workers start one after
/// another.
class GlobalStepWaiterHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument for a negative step or a poll that is not above 0.
  explicit GlobalStepWaiterHook(GlobalStepWaiterOptions options);
  /// Throws kDeadlineExceeded, naming the step there is. Returns early if the session is to stop.
  void before_run(SessionContext& context) override;

 private:
  GlobalStepWaiterOptions options_;
  bool is_reached_ = false;
};

}  // namespace brigade::train
