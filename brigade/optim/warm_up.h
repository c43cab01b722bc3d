#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/optim/schedule.h"

namespace brigade::optim {

/// Increases linearly from `initial_learning_rate` to the first value of `then`, and continues with
/// it: step 0 of `then` is step `warmup_steps`. With a `CosineDecay` this equals Keras's with
/// warmup_target and warmup_steps.
struct WarmUp {
  static constexpr std::string_view kName = "warm_up";
  double initial_learning_rate = 0.0;
  std::int64_t warmup_steps = 0;
  SchedulePtr then = nullptr;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// `schedule` with every rate multiplied by global_batch / base_batch: a rate tuned for batches of
/// `base_batch` examples, for a job with global batches of `global_batch` (the linear scaling rule;
/// Goyal et al., 2017, who add a warm-up of some epochs). Throws kInvalidArgument for no schedule
/// and sizes below 1.
SchedulePtr scaled_with_global_batch(SchedulePtr schedule, std::int64_t base_batch,
                                     std::int64_t global_batch);

/// The schedule of `scaled_with_global_batch`; for `make_schedule`.
struct ScaledWithGlobalBatch {
  static constexpr std::string_view kName = "scaled_with_global_batch";
  SchedulePtr schedule_to_scale = nullptr;
  std::int64_t base_batch = 0;
  std::int64_t global_batch = 0;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

}  // namespace brigade::optim
