#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Ends a training whose loss is NaN or infinite (TensorFlow: NanTensorHook).
struct NanHook {
  /// The name of the step's value that must be finite.
  std::string value = "loss";
  /// kFail throws kDataLoss with the value and the step. kStop stops with a warning; the state is
  /// not saved, because its weights may be NaN.
  enum class Then { kFail, kStop } then = Then::kFail;
  /// The number of steps from one check to the next; a check waits for the device.
  std::int64_t every_steps = 1;

  /// Throws kInvalidArgument unless `every_steps` is above 0.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
