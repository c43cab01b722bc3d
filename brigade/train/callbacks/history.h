#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::train {

/// The metrics of an epoch by name: "loss", "accuracy", "val_loss", "learning_rate".
using Logs = std::map<std::string, double>;

/// The result of `Model::fit`: the metrics of every epoch. Keras: History.
///
/// Thread-safety: a value.
struct History {
  /// The epochs that were trained, from 0.
  std::vector<std::int64_t> epochs;
  /// By name: the values of all epochs that had the metric.
  std::map<std::string, std::vector<double>> logs;
  /// Why the training ended before the last epoch; empty if it did not.
  std::string stop_reason;

  /// Appends an epoch.
  void add(std::int64_t epoch, const Logs& epoch_logs);
  /// The values of a metric. Throws kNotFound, with the existing names.
  const std::vector<double>& at(std::string_view name) const;
};

}  // namespace brigade::train
