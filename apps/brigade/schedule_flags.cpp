#include "apps/brigade/schedule_flags.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/json_values.h"
#include "apps/brigade/stage_flags.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr double kDefaultFactor = 0.1;
constexpr std::string_view kEpochs = "epochs";

struct Warmup {
  std::int64_t count = 0;
  bool is_in_epochs = false;
};

Warmup parse_warmup(const std::string& text) {
  const bool is_in_epochs = text.ends_with(kEpochs);
  const auto count =
      base::parse_int(is_in_epochs ? text.substr(0, text.size() - kEpochs.size()) : text);
  if (count && *count >= 1 && *count <= std::int64_t{1} << 31)
    return {.count = *count, .is_in_epochs = is_in_epochs};
  throw UsageError("--warmup is ", base::quoted(text),
                   "; give steps, such as 500, or epochs, such as 5epochs");
}

}  // namespace

void ScheduleFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Optimizer");
  group.add("--schedule", schedule,
            "How the learning rate changes: constant, cosine (to 0), exponential and step (times "
            "--decay-factor every --decay-steps, gradually or in steps), linear (to 0)");
  group.add("--decay-steps", decay_steps,
            "Steps of the schedule (cosine, linear: by default the rest of the training)");
  group.add("--decay-factor", decay_factor,
            base::str_cat("Factor of exponential and step (default ", kDefaultFactor, ")"));
  group
      .add("--warmup", warmup,
           "First steps, in which the learning rate grows linearly from 0: 500, or 5epochs")
      ->option_text("STEPS|EPOCHS");
  group.add("--base-batch-size", base_batch,
            "The global batch size that --learning-rate is for; for another one the rate is scaled "
            "in proportion");
}

void ScheduleFlags::check() const {
  if (std::ranges::find(pipeline_schedule_names(), schedule) != pipeline_schedule_names().end()) {
    throw UsageError(
        "--schedule is the learning rate's; for the order of a pipeline's passes give "
        "--pipeline-schedule ",
        schedule);
  }
  check_choice("schedule", schedule, {"constant", "cosine", "exponential", "linear", "step"});
  const bool is_repeated = schedule == "exponential" || schedule == "step";
  if (decay_steps) check_at_least("--decay-steps", *decay_steps, 1);
  if (warmup) parse_warmup(*warmup);
  if (base_batch) check_at_least("--base-batch-size", *base_batch, 1);
  if (decay_steps && schedule == "constant")
    throw UsageError("--decay-steps needs a --schedule other than constant");
  if (is_repeated && !decay_steps) {
    throw UsageError("--schedule ", schedule,
                     " needs --decay-steps, after which the rate is multiplied by --decay-factor");
  }
  if (!decay_factor) return;
  if (!is_repeated) {
    throw UsageError("--decay-factor is for --schedule exponential and step, not ", schedule);
  }
  if (!(*decay_factor > 0.0 && *decay_factor <= 1.0)) {
    throw UsageError("--decay-factor is ", *decay_factor, "; it must be above 0 and at most 1");
  }
}

std::int64_t ScheduleFlags::warmup_steps(const Steps& steps) const {
  if (!warmup) return 0;
  const Warmup parsed = parse_warmup(*warmup);
  if (!parsed.is_in_epochs) return parsed.count;
  if (steps.in_epoch) return parsed.count * *steps.in_epoch;
  throw UsageError("--warmup is ", *warmup,
                   ", and the length of an epoch is not known in advance; give it in steps");
}

optim::SchedulePtr ScheduleFlags::decaying(double rate, const Steps& steps) const {
  const double factor = decay_factor.value_or(kDefaultFactor);
  if (schedule == "constant") return optim::ConstantRate{.learning_rate = rate}.schedule();
  if (schedule == "exponential")
    return optim::ExponentialDecay{
        .initial_learning_rate = rate, .decay_steps = *decay_steps, .decay_rate = factor}
        .schedule();
  if (schedule == "step")
    return optim::StepDecay{
        .initial_learning_rate = rate, .step_size = *decay_steps, .factor = factor}
        .schedule();
  if (!decay_steps && !steps.total) {
    throw UsageError("the length of the training is not known in advance, so --schedule ", schedule,
                     " needs --decay-steps");
  }
  const std::int64_t decay =
      decay_steps ? *decay_steps : steps.total.value_or(0) - warmup_steps(steps);
  if (decay < 1) {
    throw UsageError("--warmup ", *warmup, " leaves no step for --schedule ", schedule, " of ",
                     *steps.total, " steps in all");
  }
  if (schedule == "linear")
    return optim::PolynomialDecay{
        .initial_learning_rate = rate, .decay_steps = decay, .end_learning_rate = 0.0}
        .schedule();
  return optim::CosineDecay{.initial_learning_rate = rate, .decay_steps = decay}.schedule();
}

optim::SchedulePtr ScheduleFlags::make(double rate, std::int64_t global_batch,
                                       const Steps& steps) const {
  if (!is_changing()) return nullptr;
  optim::SchedulePtr made = decaying(rate, steps);
  if (warmup)
    made = optim::WarmUp{.warmup_steps = warmup_steps(steps), .then = std::move(made)}.schedule();
  if (base_batch)
    made = optim::scaled_with_global_batch(std::move(made), *base_batch, global_batch);
  return made;
}

void ScheduleFlags::describe(Json& configuration) const {
  configuration["schedule"] = schedule;
  configuration["decay_steps"] = number_or_null(decay_steps);
  const bool is_repeated = schedule == "exponential" || schedule == "step";
  configuration["decay_factor"] =
      is_repeated ? Json(decay_factor.value_or(kDefaultFactor)) : Json(nullptr);
  configuration["warmup"] = number_or_null(warmup);
  configuration["base_batch_size"] = number_or_null(base_batch);
}

}  // namespace brigade::command
