#pragma once

#include <cstdint>
#include <string>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

struct NanHookOptions {
  /// The step's value that must be a finite number.
  std::string value = "loss";
  /// kFail throws kDataLoss naming the value and the step. kStop stops, with a warning; the state
  /// is not saved, for its weights may be spoilt.
  enum class Then { kFail, kStop } then = Then::kFail;
  /// Looks at each so many steps: a look waits for the device.
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
