#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Writes values of the step to the log (TensorFlow: LoggingTensorHook). The session's step throws
/// kNotFound, with the existing names, if it returns no such value.
struct LoggingHook {
  /// The names of the values to log. Empty: all scalars.
  std::vector<std::string> values = {};
  /// How often to log. The first step is always logged, unless this is `Every{}`.
  Every every = {.steps = 100};
  /// Whether to log the last step at the end of the session.
  bool at_end = false;
  /// Formats the line of a step. Empty: `loss = 0.25, accuracy = 0.5 (0.123 sec)`, with the time
  /// since the last line.
  std::function<std::string(std::int64_t step, const StepValues&)> format = {};

  /// Throws kInvalidArgument for options with which it would never log.
  std::shared_ptr<SessionRunHook> hook() const;
};

/// Reports the speed of the training: a log line and a summary, both named `global_step/sec`.
struct StepCounterHook {
  Every every = {.steps = 100};
  std::shared_ptr<SessionRunHook> hook() const;
};

/// Reports what each replica spends the time of its steps on: input, compute, waiting for peers,
/// communication and update (it turns `Strategy::measure_steps` on). Writes a log line, and
/// summaries `step_shares/replica_0/input` and so on, each from 0 to 1, over the steps since the
/// last report; and `time_outside_steps`, the fraction of the time since then in which no step ran:
/// checkpoints, evaluations, hooks.
struct StepBreakdownHook {
  Every every = {.steps = 100};
  bool logs = true;  ///< false: summaries only
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
