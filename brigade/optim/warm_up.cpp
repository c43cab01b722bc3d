#include "brigade/optim/warm_up.h"

#include "brigade/optim/schedule_of.h"

namespace brigade::optim {

using internal::check_rate;
using internal::check_steps;
using internal::field;
using internal::options_from;
using internal::ScheduleOf;

static void check_given(std::string_view name, std::string_view which, const SchedulePtr& given) {
  check_argument(given != nullptr, base::str_cat("Schedule ", name, ": ", which,
                                                 " is missing; give it a schedule, for example "
                                                 "ConstantRate{.learning_rate = 0.1}.schedule()."));
}

static double rate_at(const WarmUp& o, std::int64_t step) {
  if (step >= o.warmup_steps) return (*o.then)(step - o.warmup_steps);
  const double fraction = static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  return ((*o.then)(0) - o.initial_learning_rate) * fraction + o.initial_learning_rate;
}

static constexpr auto fields_of(const WarmUp&) {
  return std::make_tuple(field("initial_learning_rate", &WarmUp::initial_learning_rate),
                         field("warmup_steps", &WarmUp::warmup_steps),
                         field("then", &WarmUp::then));
}

SchedulePtr WarmUp::schedule() const {
  check_rate(kName, "initial_learning_rate", initial_learning_rate);
  check_steps(kName, "warmup_steps", warmup_steps);
  check_given(kName, "then", then);
  return std::make_shared<ScheduleOf<WarmUp>>(*this);
}

SchedulePtr WarmUp::from(const io::StateTree& config) {
  return options_from<WarmUp>(config).schedule();
}

static double rate_at(const ScaledWithGlobalBatch& o, std::int64_t step) {
  return (*o.schedule_to_scale)(step) *
         (static_cast<double>(o.global_batch) / static_cast<double>(o.base_batch));
}

static constexpr auto fields_of(const ScaledWithGlobalBatch&) {
  return std::make_tuple(field("schedule", &ScaledWithGlobalBatch::schedule_to_scale),
                         field("base_batch", &ScaledWithGlobalBatch::base_batch),
                         field("global_batch", &ScaledWithGlobalBatch::global_batch));
}

SchedulePtr ScaledWithGlobalBatch::schedule() const {
  check_given(kName, "schedule", schedule_to_scale);
  check_steps(kName, "base_batch", base_batch);
  check_steps(kName, "global_batch", global_batch);
  return std::make_shared<ScheduleOf<ScaledWithGlobalBatch>>(*this);
}

SchedulePtr ScaledWithGlobalBatch::from(const io::StateTree& config) {
  return options_from<ScaledWithGlobalBatch>(config).schedule();
}

SchedulePtr scaled_with_global_batch(SchedulePtr schedule, std::int64_t base_batch,
                                     std::int64_t global_batch) {
  return ScaledWithGlobalBatch{.schedule_to_scale = std::move(schedule),
                               .base_batch = base_batch,
                               .global_batch = global_batch}
      .schedule();
}

}  // namespace brigade::optim
