#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "brigade/optim/schedule.h"
#include "brigade/train/callbacks/callback.h"

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

}  // namespace brigade::train
