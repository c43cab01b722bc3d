#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

struct LoggingHookOptions {
  /// Names of the step's values. Empty: all that are one number.
  std::vector<std::string> values = {};
  /// The first step always is, unless this is `Every{}`.
  Every every = {.steps = 100};
  /// Whether the last step is logged when the session ends.
  enum class AtEnd { kNo, kYes } at_end = AtEnd::kNo;
  /// The line for a step. Empty: `loss = 0.25, accuracy = 0.5 (0.123 sec)`, the time being that
  /// since the line before.
  std::function<std::string(std::int64_t step, const StepValues&)> format = {};
};

/// Writes values of the step to the log (TensorFlow: LoggingTensorHook).
class LoggingHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument for one that would never log.
  explicit LoggingHook(LoggingHookOptions options = {});
  void begin(SessionContext& context) override;
  /// Throws kNotFound, naming those that there are, if the step returns no such value.
  void after_run(SessionContext& context, const StepValues& values) override;
  void end(SessionContext& context) override;

 private:
  void log(std::int64_t step, const StepValues& values);
  LoggingHookOptions options_;
  std::optional<StepTimer> timer_;
  std::optional<StepValues> last_;
};

}  // namespace brigade::train
