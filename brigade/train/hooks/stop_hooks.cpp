#include "brigade/train/hooks/stop_hooks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategy.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

class StepLimit final : public SessionRunHook {
 public:
  explicit StepLimit(const StopAtStepHook& at) : at_(at) {
    check_argument(at.num_steps.has_value() != at.last_step.has_value(),
                   "StopAtStepHook: set exactly one of num_steps and last_step.");
    const std::int64_t steps = at.num_steps.value_or(at.last_step.value_or(0));
    check_argument(steps >= 0, "StopAtStepHook: the number of steps is ", steps,
                   "; it must be 0 or more.");
  }

  comm::Facts facts() const override {
    const bool is_count = at_.num_steps.has_value();
    return {{is_count ? "num_steps" : "last_step",
             base::str_cat(is_count ? *at_.num_steps : *at_.last_step)}};
  }

  void begin(SessionContext& context) override {
    const distribute::Strategy& strategy = context.state().strategy();
    const bool are_independent = strategy.num_workers() > 1 && !strategy.has_worker_collectives();
    check_argument(!at_.num_steps || !are_independent,
                   "StopAtStepHook: num_steps counts from the step at which each worker begins, "
                   "and workers with parameter servers begin at different ones: set last_step.");
  }

  void after_create_session(SessionContext& context) override {
    // Set only once: a recovery does not restart the count.
    if (!at_.last_step) at_.last_step = context.global_step() + *at_.num_steps;
    stop_if_reached(context);
  }

  // Other workers may have reached it since this one's last step.
  void before_run(SessionContext& context) override {
    if (context.state().strategy().global_step()) stop_if_reached(context);
  }
  void after_run(SessionContext& context, const StepValues&) override { stop_if_reached(context); }
  bool must_see(const SessionContext& context) const override {
    return context.global_step() >= *at_.last_step;
  }

 private:
  void stop_if_reached(SessionContext& context) const {
    if (context.global_step() >= *at_.last_step)
      context.request_stop(AtStop::kSave, RequestedBy::kEveryWorker);
  }
  StopAtStepHook at_;
};

class EvalsCounter final : public SessionRunHook {
 public:
  explicit EvalsCounter(const StopAfterNEvalsHook& options) : options_(options) {
    check_argument(options.num_evals > 0, "StopAfterNEvalsHook: num_evals is ", options.num_evals,
                   " and must be at least 1.");
  }

  void begin(SessionContext&) override { done_ = 0; }

  void after_run(SessionContext& context, const StepValues&) override {
    ++done_;
    const std::int64_t num_evals = options_.num_evals;
    const std::int64_t tenth = std::max<std::int64_t>(1, num_evals / 10);
    if (options_.log_progress && (done_ % tenth == 0 || done_ == num_evals))
      base::log_info("Evaluation [", done_, "/", num_evals, "]");
    if (done_ >= num_evals) context.request_stop(AtStop::kSave, RequestedBy::kEveryWorker);
  }

 private:
  const StopAfterNEvalsHook options_;
  std::int64_t done_ = 0;
};

class NanCheck final : public SessionRunHook {
 public:
  explicit NanCheck(NanHook options) : options_(std::move(options)) {
    check_argument(options_.every_steps > 0, "NanHook::every_steps is ", options_.every_steps,
                   "; it must be above 0.");
  }

  void after_create_session(SessionContext& context) override {
    last_step_ = context.global_step();
  }

  void after_run(SessionContext& context, const StepValues& values) override {
    if (!is_due(context.global_step())) return;
    const double value = values.number(options_.value);
    if (std::isfinite(value)) return;
    const std::string message = base::str_cat("'", options_.value, "' is ", value, " in step ",
                                              context.global_step(), ": the training diverged.");
    if (options_.then == NanHook::Then::kFail) throw Error(ErrorCode::kDataLoss, message);
    base::log_warning(message);
    // Other workers may lack this hook, or have another value.
    context.request_stop(AtStop::kDiscard, RequestedBy::kThisWorker);
  }

 private:
  /// Other workers' steps may count, too, so that this one's are not consecutive.
  bool is_due(std::int64_t step) {
    const std::int64_t last = std::exchange(last_step_, step);
    const std::int64_t every = options_.every_steps;
    return step % every == 0 || step / every > last / every;
  }

  const NanHook options_;
  std::int64_t last_step_ = 0;
};

}  // namespace

std::shared_ptr<SessionRunHook> StopAtStepHook::hook() const {
  return std::make_shared<StepLimit>(*this);
}

std::shared_ptr<SessionRunHook> StopAfterNEvalsHook::hook() const {
  return std::make_shared<EvalsCounter>(*this);
}

std::shared_ptr<SessionRunHook> NanHook::hook() const {
  return std::make_shared<NanCheck>(*this);
}

}  // namespace brigade::train
