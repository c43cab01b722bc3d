#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::train {

/// Figures by name, as callbacks see them: "loss", "accuracy", "val_loss", "learning_rate".
using Logs = std::map<std::string, double>;

/// What `Model::fit` returns: the figures of every epoch. Keras: History.
///
/// Thread-safety: a value.
struct History {
  /// The epochs that were trained, from 0.
  std::vector<std::int64_t> epochs;
  /// By name, a value for each epoch that had it.
  std::map<std::string, std::vector<double>> logs;
  /// Why training ended before the last epoch; empty if it did not.
  std::string stop_reason;

  /// Appends an epoch.
  void add(std::int64_t epoch, const Logs& epoch_logs);
  /// A figure's values. Throws kNotFound, naming those that there are.
  const std::vector<double>& at(std::string_view name) const;
};

}  // namespace brigade::train
