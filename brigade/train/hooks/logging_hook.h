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
  /// The names of the values to log. Empty: all scalars.
  std::vector<std::string> values = {};
  /// How often to log. The first step is always logged, unless this is `Every{}`.
  Every every = {.steps = 100};
  /// Whether to log the last step at the end of the session.
  bool at_end = false;
  /// Formats the line of a step. Empty: `loss = 0.25, accuracy = 0.5 (0.123 sec)`, with the time
  /// since the last line.
  std::function<std::string(std::int64_t step, const StepValues&)> format = {};
};

/// Writes values of the step to the log (TensorFlow: LoggingTensorHook).
class LoggingHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument for options with which it would never log.
  explicit LoggingHook(LoggingHookOptions options = {});
  void begin(SessionContext& context) override;
  /// Throws kNotFound, with the existing names, if the step returns no such value.
  void after_run(SessionContext& context, const StepValues& values) override;
  void end(SessionContext& context) override;

 private:
  void log(std::int64_t step, const StepValues& values);
  LoggingHookOptions options_;
  std::optional<StepTimer> timer_;
  std::optional<StepValues> last_;
};

}  // namespace brigade::train
