#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/metric_monitor.h"

namespace brigade::train {

/// Stops the training when a metric has not improved for `patience` epochs. Keras: EarlyStopping.
struct EarlyStopping {
  /// The metric by its name in the logs: "loss", "val_accuracy".
  std::string monitor = "val_loss";
  /// A value counts as an improvement if it is better than the best by more than this.
  double min_delta = 0.0;
  /// The number of epochs without an improvement after which the training stops.
  std::int64_t patience = 0;
  /// Whether lower or higher values are better.
  MonitorMode mode = MonitorMode::kAuto;
  /// An improvement resets the patience only if it is better than this value.
  std::optional<double> baseline = std::nullopt;
  /// If true, the model has the weights of the best epoch at the end, whether it was stopped or
  /// not.
  bool restore_best_weights = false;
  /// Epochs before this one are ignored.
  std::int64_t start_from_epoch = 0;

  /// Throws kInvalidArgument for a negative patience, and as `MetricMonitor`.
  std::shared_ptr<Callback> callback() const;
};

/// Stops the training at the first batch whose loss is NaN or infinite. Reads the loss of every
/// batch, which waits for the devices. Keras: TerminateOnNaN.
struct TerminateOnNaN {
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
