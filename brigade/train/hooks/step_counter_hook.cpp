#include "brigade/train/hooks/step_counter_hook.h"

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {

void StepCounterHook::begin(SessionContext& context) {
  timer_.emplace(every_, context.clock());
}

void StepCounterHook::after_create_session(SessionContext& context) {
  timer_->reset();
  timer_->mark(context.global_step());
}

void StepCounterHook::after_run(SessionContext& context, const StepValues&) {
  const std::int64_t step = context.global_step();
  if (!timer_->is_due(step)) return;
  const auto elapsed = timer_->mark(step);
  if (!elapsed || elapsed->time.count() <= 0) return;
  const double rate = static_cast<double>(elapsed->steps) / elapsed->time.count();
  base::log_info(base::str_cat("global_step/sec: ", rate));
  if (context.summaries() != nullptr) context.summaries()->scalar("global_step/sec", rate, step);
}

}  // namespace brigade::train
