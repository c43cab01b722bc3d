#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "brigade/optim/schedule.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// Sets the learning rate at the start of every epoch, and notes it in the epoch's logs as
/// "learning_rate". Keras: LearningRateScheduler. For a rate that changes with every step give
/// `compile` a schedule.
struct LearningRateScheduler {
  /// The rate of an epoch (from 0), given the rate before.
  std::function<double(std::int64_t epoch, double rate)> schedule;

  /// One of `optim`'s schedules, whose steps are then epochs.
  static LearningRateScheduler of(optim::SchedulePtr schedule);

  /// Throws kInvalidArgument without a function.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
