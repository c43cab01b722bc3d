#include "brigade/train/evaluation/checkpoint_evaluation.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/train/hooks/final_ops_hook.h"

namespace brigade::train {

using checkpoint::Checkpoint;

namespace {

/// Keeps the global step at that of the checkpoint, and counts the batches. It is the first hook,
/// so that all others see this step.
class HoldStepHook final : public SessionRunHook {
 public:
  void after_create_session(SessionContext& context) override { step_ = context.global_step(); }
  void after_run(SessionContext& context, const StepValues&) override {
    context.state().set_global_step(step_);
    ++batches_;
  }
  std::int64_t step() const { return step_; }
  std::int64_t batches() const { return batches_; }

 private:
  std::int64_t step_ = 0;
  std::int64_t batches_ = 0;
};

void restore(TrainingState& state, const Checkpoint& checkpoint,
             const TrainingRestoreOptions& options) {
  const io::StateTree saved = checkpoint.state();
  if (saved.has("global_step") && saved.has("strategy")) {
    state.restore(checkpoint, options);
    return;
  }
  checkpoint::restore_variables(checkpoint, state.variables(), options.variables);
  state.set_global_step(checkpoint.step());
}

void set_once(StepValues& values, const std::string& name, const auto& value) {
  check_argument(!values.has(name), "Two results would have the name '", name, "'.");
  values.set(name, value);
}

StepValues results_of(const Evaluation& evaluation) {
  StepValues results;
  for (const metrics::Metric* metric : evaluation.metrics)
    set_once(results, metric->name(), metric->result());
  if (!evaluation.final_values) return results;
  const StepValues further = evaluation.final_values();
  for (const std::string& name : further.names()) set_once(results, name, further.tensor(name));
  return results;
}

Logs numbers(const StepValues& values) {
  Logs logs;
  for (const std::string& name : values.names()) {
    if (values.tensor(name).numel() == 1) logs[name] = values.number(name);
  }
  return logs;
}

/// An evaluation is a session that saves and logs nothing, with hooks.
SessionOptions session_of(const Checkpoint& checkpoint, const Evaluation& evaluation,
                          const EvaluationOptions& options) {
  return {.scaffold = {.init =
                           [&](TrainingState& state) {
                             restore(state, checkpoint, options.restore);
                             for (const metrics::Metric* metric : evaluation.metrics)
                               metric->reset_state();
                             if (evaluation.begin) evaluation.begin();
                           }},
          .hooks = options.hooks,
          .save_checkpoints = {},
          .save_summaries = {},
          .log_step_count = {}};
}

void check(const Evaluation& evaluation) {
  check_argument(evaluation.step || evaluation.final_values,
                 "Evaluation: neither step nor final_values is set.");
  for (const metrics::Metric* metric : evaluation.metrics)
    check_argument(metric != nullptr, "A metric of an evaluation is null.");
}

/// One evaluation, or nothing if the checkpoint is gone or the evaluation was cancelled.
std::optional<EvaluationReport> try_evaluate(TrainingState& state, const Checkpoint& checkpoint,
                                             const Evaluation& evaluation,
                                             const EvaluationOptions& options) {
  try {
    return evaluate_once(state, checkpoint, evaluation, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled && options.cancel.is_cancelled()) return std::nullopt;
    if (options.environment.files->exists(checkpoint.path())) throw;
    base::log_warning("Skipped ", checkpoint.path().string(),
                      ", which was removed before it could be evaluated: ", error.what());
    return std::nullopt;
  }
}

}  // namespace

Checkpoint open_checkpoint(const std::shared_ptr<const io::FileSystem>& files,
                           const io::Path& path) {
  if (files->exists(path / checkpoint::kManifestName)) return Checkpoint::open(files, path);
  checkpoint::LatestComplete latest = checkpoint::find_latest_complete(files, path);
  for (const auto& broken : latest.broken) {
    base::log_warning("Skipped the broken checkpoint ", broken.path.string(), ": ", broken.reason);
  }
  if (latest.checkpoint) return std::move(*latest.checkpoint);
  throw Error(ErrorCode::kNotFound, "There is no complete checkpoint at ", path.string());
}

EvaluationReport evaluate_once(TrainingState& state, const Checkpoint& checkpoint,
                               const Evaluation& evaluation, const EvaluationOptions& options) {
  check(evaluation);
  const at::NoGradGuard no_grad;
  const base::SystemClock clock;
  std::optional<summary::SummaryWriter> summaries;
  if (!options.summary_dir.empty())
    summaries.emplace(options.environment.files, options.summary_dir, clock);
  const auto hold = std::make_shared<HoldStepHook>();
  const auto results =
      std::make_shared<FinalOpsHook>([&](SessionContext&) { return results_of(evaluation); });
  SessionOptions session_options = session_of(checkpoint, evaluation, options);
  auto& hooks = session_options.hooks;
  hooks.insert(hooks.begin(), hold);
  hooks.push_back(results);
  MonitoredTrainingSession session(state, std::move(session_options), options.environment);
  while (!session.should_stop()) {
    session.run([&] {
      options.cancel.throw_if_cancelled("an evaluation");
      return evaluation.step ? evaluation.step() : std::nullopt;
    });
  }
  session.close();
  EvaluationReport evaluated{.checkpoint = checkpoint.path(),
                             .step = hold->step(),
                             .batches = hold->batches(),
                             .results = numbers(results->values().value_or(StepValues{}))};
  if (summaries) {
    write_results(*summaries, evaluated);
    summaries->close();
  }
  return evaluated;
}

void write_results(summary::SummaryWriter& summaries, const EvaluationReport& evaluated) {
  std::vector<summary::TaggedScalar> scalars;
  for (const auto& [name, value] : evaluated.results) scalars.push_back({name, value});
  if (!scalars.empty()) summaries.scalars(scalars, evaluated.step);
  summaries.flush();
}

EvaluationReport evaluate_once(TrainingState& state, const io::Path& checkpoint_path,
                               const Evaluation& evaluation, const EvaluationOptions& options) {
  check_argument(options.environment.files != nullptr, "SessionEnvironment::files is null.");
  return evaluate_once(state, open_checkpoint(options.environment.files, checkpoint_path),
                       evaluation, options);
}

std::optional<EvaluationReport> evaluation_loop(TrainingState& state, const io::Path& directory,
                                                const Evaluation& evaluation,
                                                const EvaluationLoopOptions& options) {
  const auto& most = options.max_number_of_evaluations;
  check_argument(!most || *most > 0, "max_number_of_evaluations is ", most.value_or(0),
                 "; it must be above 0.");
  CheckpointsIterator checkpoints(directory, {.min_interval = options.interval,
                                              .timeout = options.timeout,
                                              .timeout_fn = options.timeout_fn,
                                              .poll = options.poll,
                                              .cancel = options.each.cancel,
                                              .environment = options.each.environment});
  EvaluationOptions each = options.each;
  each.summary_dir.clear();  // all results go into one file
  const base::SystemClock clock;
  std::optional<summary::SummaryWriter> summaries;
  if (!options.each.summary_dir.empty())
    summaries.emplace(each.environment.files, options.each.summary_dir, clock);

  std::optional<EvaluationReport> last;
  for (std::int64_t done = 0; !most || done < *most;) {
    const auto checkpoint = checkpoints.next();
    if (!checkpoint) break;
    auto evaluated = try_evaluate(state, *checkpoint, evaluation, each);
    if (!evaluated) continue;
    ++done;
    if (summaries) write_results(*summaries, *evaluated);
    if (options.on_evaluated) options.on_evaluated(*evaluated);
    last = std::move(evaluated);
  }
  if (summaries) summaries->close();
  return last;
}

}  // namespace brigade::train
