#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "brigade/optim/schedule.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/metric_monitor.h"

namespace brigade::train {

/// Sets the learning rate at the start of every epoch, and adds it to the logs as "learning_rate".
/// Keras: LearningRateScheduler. For a rate that changes with every step, use
/// `CompileOptions::schedule`.
struct LearningRateScheduler {
  /// Returns the rate of an epoch (from 0), given the current rate.
  std::function<double(std::int64_t epoch, double rate)> schedule;

  /// Uses a schedule of `optim`, with epochs as its steps.
  static LearningRateScheduler of(optim::SchedulePtr schedule);

  /// Throws kInvalidArgument without a function.
  std::shared_ptr<Callback> callback() const;
};

/// Lowers the learning rate when a metric has not improved for `patience` epochs, and adds the rate
/// to the logs of each epoch as "learning_rate". Keras: ReduceLROnPlateau.
struct ReduceLROnPlateau {
  /// The metric by its name in the logs: "loss", "val_accuracy".
  std::string monitor = "val_loss";
  double factor = 0.1;  ///< the rate is multiplied by it; below 1
  /// The number of epochs without an improvement after which the rate is lowered.
  std::int64_t patience = 10;
  /// Whether lower or higher values are better.
  MonitorMode mode = MonitorMode::kAuto;
  /// A value counts as an improvement if it is better than the best by more than this.
  double min_delta = 1e-4;
  /// The number of epochs after a reduction that do not count for the patience.
  std::int64_t cooldown = 0;
  /// The rate is not lowered below this.
  double min_lr = 0.0;

  /// Throws kInvalidArgument for a factor outside of (0, 1), negative numbers, and as
  /// `MetricMonitor`.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
