#include "brigade/train/hooks/stop_at_step_hook.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {

StopAtStepHook::StopAtStepHook(StopAtStep at) : at_(at) {
  check_argument(at.num_steps.has_value() != at.last_step.has_value(),
                 "StopAtStepHook: set exactly one of num_steps and last_step.");
  const std::int64_t steps = at.num_steps.value_or(at.last_step.value_or(0));
  check_argument(steps >= 0, base::str_cat("StopAtStepHook: the number of steps is ", steps,
                                           "; it must be 0 or more."));
}

comm::Facts StopAtStepHook::facts() const {
  const bool is_count = at_.num_steps.has_value();
  return {{is_count ? "num_steps" : "last_step",
           base::str_cat(is_count ? *at_.num_steps : *at_.last_step)}};
}

void StopAtStepHook::after_create_session(SessionContext& context) {
  // Set only once: a recovery does not restart the count.
  if (!at_.last_step) at_.last_step = context.global_step() + *at_.num_steps;
  stop_if_reached(context);
}

void StopAtStepHook::after_run(SessionContext& context, const StepValues&) {
  stop_if_reached(context);
}

void StopAtStepHook::stop_if_reached(SessionContext& context) const {
  if (context.global_step() >= *at_.last_step) context.request_stop();
}

}  // namespace brigade::train
