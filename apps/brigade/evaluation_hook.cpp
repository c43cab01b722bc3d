#include "apps/brigade/evaluation_hook.h"

#include <array>
#include <utility>

#include "apps/brigade/report.h"

namespace brigade::command {
namespace {

/// While it lives, runs of the strategy do not count as training: they are not measured, and
/// random numbers continue afterwards as if the runs had not happened.
class OutsideTraining {
 public:
  explicit OutsideTraining(distribute::Strategy& strategy)
      : strategy_(strategy), step_(strategy.step()) {
    strategy_.measure_steps(distribute::StepMeasuring::kOff);
  }
  ~OutsideTraining() {
    strategy_.set_step(step_);
    strategy_.measure_steps(distribute::StepMeasuring::kOn);
  }
  OutsideTraining(const OutsideTraining&) = delete;
  OutsideTraining& operator=(const OutsideTraining&) = delete;

 private:
  distribute::Strategy& strategy_;
  std::uint64_t step_;
};

}  // namespace

EvaluationHook::EvaluationHook(Options options) : options_(std::move(options)) {}

void EvaluationHook::begin(train::SessionContext& context) {
  timer_.emplace(train::Every{.time = options_.every.time}, clock_);
  if (options_.every.time)
    chiefs_timer_ = context.add_timer([this](std::int64_t step) { return timer_->is_due(step); });
  context.state().add(checkpointable());
  if (options_.directory.empty() || !options_.strategy.is_chief()) return;
  summaries_ =
      std::make_unique<summary::SummaryWriter>(context.files(), options_.directory, clock_);
}

void EvaluationHook::after_create_session(train::SessionContext& context) {
  const std::int64_t step = context.global_step();
  results_.erase(results_.upper_bound(step), results_.end());
  timer_->mark(step);
  last_step_ = step;
  if (summaries_) summaries_->session_start(step + 1);
  // A signal may have come in the evaluation that was due at the checkpoint's step.
  if (step > 0 && is_multiple(step)) evaluate(step);
}

void EvaluationHook::after_run(train::SessionContext& context, const train::StepValues&) {
  const std::int64_t step = context.global_step();
  const std::int64_t last = std::exchange(last_step_, step);
  if (!is_due_by_steps(step, last) && !is_due_by_time(context)) return;
  evaluate(step);
  timer_->mark(step);
  // A signal to one worker has interrupted it in all: a resumed run repeats it at this step.
  context.agree_before_next_step();
}

bool EvaluationHook::is_due_by_time(const train::SessionContext& context) const {
  return chiefs_timer_ && context.is_due(*chiefs_timer_);
}

bool EvaluationHook::is_multiple(std::int64_t step) const {
  return options_.every.steps && step % *options_.every.steps == 0;
}

bool EvaluationHook::is_due_by_steps(std::int64_t step, std::int64_t last) const {
  if (!options_.every.steps) return false;
  const std::int64_t every = *options_.every.steps;
  return is_multiple(step) || step / every > last / every;
}

std::optional<train::EvaluationResult> EvaluationHook::evaluate(std::int64_t step) {
  if (const auto known = results_.find(step); known != results_.end()) return known->second;
  const auto begin = std::chrono::steady_clock::now();
  const OutsideTraining aside(options_.strategy);
  std::optional<optim::AveragedWeights> averaged;
  if (options_.averages != nullptr) averaged.emplace(*options_.averages);
  const auto result =
      evaluate_unless_interrupted(options_.strategy, options_.model, options_.batches,
                                  options_.interrupt, {.map_on_replica = options_.normalizer});
  time_ += std::chrono::steady_clock::now() - begin;
  if (result) write(step, *result);
  return result;
}

void EvaluationHook::write(std::int64_t step, const train::EvaluationResult& result) {
  results_[step] = result;
  if (!options_.strategy.is_chief()) return;
  log_evaluation(step, result);
  if (!summaries_) return;
  const std::array<summary::TaggedScalar, 3> scalars{
      {{.tag = "loss", .value = result.loss},
       {.tag = "accuracy", .value = result.accuracy},
       {.tag = "top_5_accuracy", .value = result.top_5_accuracy}}};
  summaries_->scalars(scalars, step);
  summaries_->flush();
}

train::Checkpointable EvaluationHook::checkpointable() {
  const auto save = [this] {
    io::StateTree all = io::StateTree::list();
    for (const auto& [step, result] : results_) {
      io::StateTree one;
      one["step"] = step;
      one["loss"] = result.loss;
      one["accuracy"] = result.accuracy;
      one["top_5_accuracy"] = result.top_5_accuracy;
      one["examples"] = result.examples;
      all.push_back(std::move(one));
    }
    return train::CheckpointableState{.tree = std::move(all)};
  };
  const auto restore = [this](const train::CheckpointableState& saved) {
    std::map<std::int64_t, train::EvaluationResult> results;
    for (const io::StateTree& one : saved.tree.as_list()) {
      results[one.as_int64("step")] = {
          .loss = one.as_double("loss"),
          .accuracy = one.as_double("accuracy"),
          .top_5_accuracy = one.has("top_5_accuracy") ? one.as_double("top_5_accuracy") : 0.0,
          .examples = one.as_int64("examples")};
    }
    results_ = std::move(results);
  };
  // An older checkpoint may have no evaluations.
  return {.name = "evaluations",
          .save = save,
          .restore = restore,
          .missing = checkpoint::Missing::kSkip};
}

data::Dataset<input::LabeledBatch> until_interrupted(
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt) {
  return batches.map([&interrupt](input::LabeledBatch batch) {
    if (interrupt.received()) throw Error(ErrorCode::kCancelled, "interrupted");
    return batch;
  });
}

std::optional<train::EvaluationResult> evaluate_unless_interrupted(
    distribute::Strategy& strategy, const Model& model,
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt,
    const train::ClassifierEvaluationOptions& options) {
  return unless_interrupted(strategy, batches, interrupt, [&](const auto& some) {
    return train::evaluate(strategy, model, some, options);
  });
}

}  // namespace brigade::command
