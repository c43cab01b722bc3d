#pragma once

#include <functional>
#include <optional>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Computes something when the training has ended: a last evaluation, say.
class FinalOpsHook final : public SessionRunHook {
 public:
  using Function = std::function<StepValues(SessionContext&)>;
  /// Throws kInvalidArgument if there is no function.
  explicit FinalOpsHook(Function function);
  /// Not after an error.
  void end(SessionContext& context) override;
  /// What it computed; nothing before the end, or after an error.
  const std::optional<StepValues>& values() const { return values_; }

 private:
  Function function_;
  std::optional<StepValues> values_;
};

}  // namespace brigade::train
