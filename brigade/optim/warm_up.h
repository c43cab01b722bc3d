#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/optim/schedule.h"

namespace brigade::optim {

/// Rises in a straight line from `initial_learning_rate` to where `then` begins, and hands over to
/// it: `then` sees its step 0 at step `warmup_steps`. In front of a `CosineDecay` this is Keras's
/// with warmup_target and warmup_steps.
struct WarmUp {
  static constexpr std::string_view kName = "warm_up";
  double initial_learning_rate = 0.0;
  std::int64_t warmup_steps = 0;
  SchedulePtr then = nullptr;
  /// Throws kInvalidArgument naming the field and the values allowed.
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// `schedule` with every rate multiplied by global_batch / base_batch: a rate that was found for
/// batches of `base_batch` examples, for a job whose replicas together take `global_batch` (the
/// linear scaling rule; Goyal et al., 2017, who put a warm-up of some epochs in front). Throws
/// kInvalidArgument for no schedule and sizes below 1.
SchedulePtr scaled_with_global_batch(SchedulePtr schedule, std::int64_t base_batch,
                                     std::int64_t global_batch);

/// What `scaled_with_global_batch` makes; for `make_schedule`.
struct ScaledWithGlobalBatch {
  static constexpr std::string_view kName = "scaled_with_global_batch";
  SchedulePtr schedule_to_scale = nullptr;
  std::int64_t base_batch = 0;
  std::int64_t global_batch = 0;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

}  // namespace brigade::optim
