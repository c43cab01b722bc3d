#pragma once

#include <functional>
#include <optional>

#include "brigade/train/hooks/hook.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

/// Computes values at the end of the training, for example a last evaluation.
///
/// Thread-safety: the session's thread; `values` after the session has ended, or from that thread.
class FinalOpsHook final : public SessionRunHook {
 public:
  using Function = std::function<StepValues(SessionContext&)>;
  /// Throws kInvalidArgument if there is no function.
  explicit FinalOpsHook(Function function);
  /// Calls the function, except after an error.
  void end(SessionContext& context) override;
  /// The computed values; nothing before the end, or after an error.
  const std::optional<StepValues>& values() const { return values_; }

 private:
  Function function_;
  std::optional<StepValues> values_;
};

}  // namespace brigade::train
