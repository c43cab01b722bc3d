#pragma once

#include <cstdint>
#include <string>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

struct NanHookOptions {
  /// The name of the step's value that must be finite.
  std::string value = "loss";
  /// kFail throws kDataLoss with the value and the step. kStop stops with a warning; the state is
  /// not saved, because its weights may be NaN.
  enum class Then { kFail, kStop } then = Then::kFail;
  /// The number of steps from one check to the next; a check waits for the device.
  std::int64_t every_steps = 1;
};

/// Ends a training whose loss is NaN or infinite (TensorFlow: NanTensorHook).
class NanHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument unless `every_steps` is above 0.
  explicit NanHook(NanHookOptions options = {});
  void after_run(SessionContext& context, const StepValues& values) override;

 private:
  NanHookOptions options_;
};

}  // namespace brigade::train
