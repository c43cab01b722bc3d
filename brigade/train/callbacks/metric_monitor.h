#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "brigade/train/callbacks/history.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// Which values of a metric are better.
enum class MonitorMode {
  kAuto,  ///< by the name: lower is better for losses and errors, higher for accuracies and similar
          ///< metrics
  kMin,
  kMax
};

/// The metric that a callback monitors, and the test for an improvement. Keras: MonitorCallback.
///
/// Thread-safety: immutable.
class MetricMonitor {
 public:
  /// `callback` is the callback's name in messages. A value is an improvement only if it is better
  /// by `min_delta`, whose sign is ignored. Throws kInvalidArgument if the mode is kAuto and cannot
  /// be derived from the name.
  MetricMonitor(std::string callback, std::string name, MonitorMode mode, double min_delta = 0.0);

  const std::string& name() const { return name_; }
  /// The value of the metric in the logs of an epoch. If there is none, logs a warning with the
  /// existing names and returns nothing.
  std::optional<double> value(const Logs& logs) const;
  /// Whether `current` is better than `reference`; true if there is no reference.
  bool is_improvement(double current, const std::optional<double>& reference) const;

 private:
  std::string callback_, name_;
  bool is_lower_better_;
  double min_delta_;
};

/// The state of a callback with a monitor, for `FitContext::add_checkpointable`: its counters by
/// name, the best value so far, and tensors, if any. They must outlive the result.
Checkpointable monitor_state(std::string name, std::map<std::string, std::int64_t*> counters,
                             std::optional<double>* best,
                             std::map<std::string, at::Tensor>* tensors = nullptr);

}  // namespace brigade::train
