#pragma once

#include <optional>
#include <string>

#include "brigade/io/state_tree.h"
#include "brigade/train/callbacks/history.h"

namespace brigade::train {

/// Which values of a figure are better.
enum class MonitorMode {
  kAuto,  ///< by its name: losses and errors the lower, accuracies and the like the higher
  kMin,
  kMax
};

/// A figure that a callback watches, and when it has become better. Keras: MonitorCallback.
///
/// Thread-safety: immutable.
class MetricMonitor {
 public:
  /// `callback` stands in messages. `min_delta`: by how much a value must be better to count; its
  /// sign does not matter. Throws kInvalidArgument if the mode is kAuto and the name says nothing.
  MetricMonitor(std::string callback, std::string name, MonitorMode mode, double min_delta = 0.0);

  const std::string& name() const { return name_; }
  /// The figure among an epoch's; nothing, and a warning that names what there is, if it is not
  /// there.
  std::optional<double> value(const Logs& logs) const;
  /// Whether `current` is better than `reference`; everything is better than nothing.
  bool is_improvement(double current, const std::optional<double>& reference) const;

 private:
  std::string callback_, name_;
  bool is_lower_better_;
  double min_delta_;
};

/// The best value so far, in a state tree and back.
io::StateTree saved_best(const std::optional<double>& best);
std::optional<double> restored_best(const io::StateTree& tree);

}  // namespace brigade::train
