#include "brigade/train/hooks/stop_at_step_hook.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class StepLimit final : public SessionRunHook {
 public:
  explicit StepLimit(const StopAtStepHook& at) : at_(at) {
    check_argument(at.num_steps.has_value() != at.last_step.has_value(),
                   "StopAtStepHook: set exactly one of num_steps and last_step.");
    const std::int64_t steps = at.num_steps.value_or(at.last_step.value_or(0));
    check_argument(steps >= 0, base::str_cat("StopAtStepHook: the number of steps is ", steps,
                                             "; it must be 0 or more."));
  }

  comm::Facts facts() const override {
    const bool is_count = at_.num_steps.has_value();
    return {{is_count ? "num_steps" : "last_step",
             base::str_cat(is_count ? *at_.num_steps : *at_.last_step)}};
  }

  void after_create_session(SessionContext& context) override {
    // Set only once: a recovery does not restart the count.
    if (!at_.last_step) at_.last_step = context.global_step() + *at_.num_steps;
    stop_if_reached(context);
  }

  void after_run(SessionContext& context, const StepValues&) override { stop_if_reached(context); }

 private:
  void stop_if_reached(SessionContext& context) const {
    if (context.global_step() >= *at_.last_step) context.request_stop();
  }
  StopAtStepHook at_;
};

}  // namespace

std::shared_ptr<SessionRunHook> StopAtStepHook::hook() const {
  return std::make_shared<StepLimit>(*this);
}

}  // namespace brigade::train
