#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/metric_monitor.h"

namespace brigade::train {

enum class RestoreBestWeights { kNo, kYes };

/// Stops the training when a figure has not become better for `patience` epochs. Keras:
/// EarlyStopping.
struct EarlyStopping {
  std::string monitor = "val_loss";
  double min_delta = 0.0;
  std::int64_t patience = 0;
  MonitorMode mode = MonitorMode::kAuto;
  /// A value that must be reached for waiting to begin anew.
  std::optional<double> baseline = std::nullopt;
  /// With kYes the model ends with the weights of the best epoch, whether it was stopped or not.
  RestoreBestWeights restore_best_weights = RestoreBestWeights::kNo;
  /// Epochs before this one do not count.
  std::int64_t start_from_epoch = 0;

  /// Throws kInvalidArgument for a negative patience, and as `MetricMonitor`.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
