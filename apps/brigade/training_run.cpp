#include "apps/brigade/training_run.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/train_setup.h"
#include "apps/brigade/training_loop.h"
#include "apps/brigade/training_report.h"
#include "apps/brigade/weights.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/weights_hash.h"

namespace brigade::command {
namespace {

constexpr double kSecondsBetweenLines = 5.0;
constexpr double kSecondsBetweenRewrites = 0.5;

train::ProgressOptions progress_options(const TrainFlags& flags,
                                        std::optional<std::int64_t> total_steps) {
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const double usual = on_terminal ? kSecondsBetweenRewrites : kSecondsBetweenLines;
  const auto interval = std::chrono::duration<double>(flags.watch.log_every.value_or(usual));
  return {.total_steps = total_steps,
          .interval = std::chrono::duration_cast<std::chrono::milliseconds>(interval),
          .form = on_terminal ? train::ProgressForm::kRewrite : train::ProgressForm::kLines};
}

/// Evaluates the model when the examples of another epoch have been trained on, and may end the
/// training then.
class EpochHook final : public train::SessionRunHook {
 public:
  EpochHook(EvaluationHook& evaluation, TrainingSetting::AfterEpoch after_epoch,
            std::int64_t examples_in_epoch, std::int64_t examples_in_step)
      : evaluation_(evaluation),
        after_epoch_(std::move(after_epoch)),
        examples_in_epoch_(examples_in_epoch),
        examples_in_step_(examples_in_step) {}
  void after_create_session(train::SessionContext& context) override {
    epoch_ = epoch_after(context.global_step());
  }
  void after_run(train::SessionContext& context, const train::StepValues&) override {
    const std::int64_t step = context.global_step();
    if (std::exchange(epoch_, epoch_after(step)) == epoch_after(step)) return;
    const auto result = evaluation_.evaluate(step);
    if (result && after_epoch_(epoch_, *result)) context.request_stop();
  }

 private:
  /// How many epochs are complete after so many steps.
  std::int64_t epoch_after(std::int64_t step) const {
    return step * examples_in_step_ / examples_in_epoch_;
  }

  EvaluationHook& evaluation_;
  const TrainingSetting::AfterEpoch after_epoch_;
  const std::int64_t examples_in_epoch_;
  const std::int64_t examples_in_step_;
  std::int64_t epoch_ = 0;
};

/// One training, from the checks to the report.
class TrainingRun {
 public:
  TrainingRun(const TrainFlags& flags, const TrainingSetting& setting)
      : flags_(flags), setting_(setting) {}

  int run() {
    const Interrupt interrupt;
    continue_if_restarted();
    Prepared prepared = set_up([&] { return prepare(flags_, setting_.examples); });
    if (setting_.after_epoch && prepared.examples_in_pass < 1)
      throw UsageError("the number of examples is not known in advance, so epochs are not");
    if (prepared.is_in_progress) flags_.checkpoints.overwrite = false;
    const Json config = training_configuration(flags_, prepared);
    const distribute::Strategy& strategy = *prepared.strategy;
    set_up([&] { check_same_training(flags_, prepared, config); });
    Json stored;
    if (prepared.directory && strategy.is_chief())
      stored = set_up([&] { return open(prepared, config); });
    if (strategy.broadcast_from_chief(std::int64_t{!stored.is_null()}) == 0)
      return train(prepared, config, interrupt);
    if (strategy.is_chief()) {
      report_finished(log(), stored, prepared);
      write(config, stored);
    }
    return kDone;
  }

 private:
  std::ostream& log() const { return setting_.log; }

  /// An earlier process of a chief that was restarted has begun the run in the directory.
  void continue_if_restarted() {
    const bool is_restarted = has_servers(flags_.strategy) && is_restarted_by_launcher();
    if (is_restarted && flags_.checkpoints.resume == "never") flags_.checkpoints.resume = "auto";
  }

  /// The result, if the run in the directory is finished; else null, after preparing the directory.
  Json open(Prepared& prepared, const Json& config) const {
    const ExistingRun existing = flags_.checkpoints.existing_run();
    prepared.directory->lock();
    prepared.directory->check(existing);  // again: another training may have ended there meanwhile
    if (existing != ExistingRun::kReplace) {
      Json stored = prepared.directory->finished(config, prepared.length);
      // Other workers learn from the servers that no step is left.
      if (!stored.is_null() && !has_servers(flags_.strategy)) return stored;
    }
    prepared.directory->open(existing, config,
                             run_json(config, nullptr, steps_in_all(flags_, prepared)));
    return nullptr;
  }

  int train(Prepared& prepared, const Json& config, const Interrupt& interrupt) const {
    const auto total_steps = steps_in_all(flags_, prepared);
    const bool is_chief = prepared.strategy->is_chief();
    const Model model = flags_.model.create(*prepared.strategy, prepared.image);
    if (begins_new(prepared))
      set_up([&] { flags_.fine_tuning.initialize(model.variables(), flags_.model.model); });
    std::optional<optim::ExponentialMovingAverage> averages = make_averages(flags_.step, model);
    const auto optimizer = make_optimizer(prepared, model, interrupt);
    if (is_chief) announce_training(log(), flags_, prepared);
    const auto evaluation = evaluation_of(prepared, model, averages, interrupt);
    const base::SystemClock clock;
    std::ostream nowhere(nullptr);
    train::Progress progress(is_chief ? log() : nowhere, clock,
                             progress_options(flags_, total_steps));
    Training training{
        .step = {*prepared.strategy, model, optimizer, flags_.step,
                 flags_.model.weight_of_auxiliary_loss()},
        .batches = *prepared.train,
        .normalizer = prepared.normalizer,
        .steps = prepared.steps,
        .input = {.auto_shard = distribute::parse_auto_shard_policy(flags_.auto_shard)},
        .optimizer = std::string(prepared.rule->name()),
        .schedule = prepared.schedule,
        .averages = averages ? &*averages : nullptr,
        .session = session_options(prepared, evaluation),
        .evaluation = evaluation};
    if (has_servers(flags_.strategy)) {
      training.cancel = prepared.access.cancel;
      training.calls = prepared.access.calls;
      training.stops_after_step = is_chief || flags_.strategy.servers.mode_name() == "async";
    }
    if (flags_.strategy.compile) training.step.compile();
    TrainingResult result = run_until_stopped(training, progress, interrupt);
    if (is_chief) report_step_breakdown(log(), result);
    const std::shared_ptr<const void> fetched_averages =
        averages ? prepared.strategy->fetch_averages(*averages) : nullptr;
    if (pipeline_of(*prepared.strategy)) prepared.strategy->fetch_state();
    const auto weights = final_weights(model, averages);
    const std::string weights_sha256 = checkpoint::weights_sha256(weights);
    check_same_weights(*prepared.strategy, weights_sha256);
    if (prepared.directory && is_chief) prepared.directory->save_weights(weights, result.steps);
    if (result.signal && is_chief) report_interrupted(log(), result, total_steps, prepared);
    if (is_chief) warn_of_divergence(log(), result);
    std::optional<train::EvaluationResult> at_end;
    if (evaluation && flags_.watch.evaluates_at_end() && !result.signal) {
      at_end = evaluation->evaluate(result.steps);
      if (!at_end) {
        result.signal = interrupt.received();
        report_interrupted(log(), result, total_steps, prepared);
      }
    }
    Json report = training_result_json(result, at_end, evaluations(evaluation), weights_sha256);
    training.step.describe(report);
    if (has_servers(flags_.strategy)) add_worker(report, result, prepared);
    if (const auto* pipeline = pipeline_of(*prepared.strategy))
      add_stages(report, *pipeline, result.peak_micro_batches);
    return finish(prepared, config, report, result.signal);
  }

  /// Whether no checkpoint will be restored.
  bool begins_new(const Prepared& prepared) const {
    if (prepared.resume_from || prepared.is_in_progress) return false;
    const CheckpointFlags& flags = flags_.checkpoints;
    return flags.model_dir.empty() || flags.overwrite ||
           !checkpoint::latest_checkpoint(*io::posix_file_system(),
                                          checkpoints_in(flags.model_dir));
  }

  /// The averages, if there are any: what is evaluated is saved.
  static std::vector<checkpoint::NamedTensor> final_weights(
      const Model& model, std::optional<optim::ExponentialMovingAverage>& averages) {
    std::optional<optim::AveragedWeights> averaged;
    if (averages) averaged.emplace(*averages);
    std::vector<checkpoint::NamedTensor> weights = weights_of(model.variables());
    if (averages)  // the variables get their own values back
      for (checkpoint::NamedTensor& each : weights) each.tensor = each.tensor.clone();
    return weights;
  }

  std::vector<optim::ParameterGroup> groups(const Model& model) const {
    std::vector<optim::ParameterGroup> groups = flags_.fine_tuning.groups();
    for (optim::ParameterGroup& each : flags_.optimizer.groups(model.variables()))
      groups.push_back(std::move(each));
    return groups;
  }

  distribute::Optimizer make_optimizer(const Prepared& prepared, const Model& model,
                                       const Interrupt& interrupt) const {
    const auto make = [&] {
      return set_up([&] {
        distribute::OptimizerOptions options = flags_.strategy.optimizer_options();
        options.groups = groups(model);
        options.accumulate = static_cast<int>(flags_.accumulate);
        return prepared.strategy->make_optimizer(model.variables(), prepared.rule, options);
      });
    };
    if (!has_servers(flags_.strategy)) return make();
    StartWatch watch(interrupt,
                     {.token = prepared.access.cancel});  // the chief creates variables there
    return watch.guard("the parameter servers", make);
  }

  /// Throws StoppedBySignal if a signal came while the strategy waited for other processes, which
  /// then may never come.
  TrainingResult run_until_stopped(const Training& training, train::Progress& progress,
                                   const Interrupt& interrupt) const {
    try {
      return run_training(training, progress, interrupt);
    } catch (const Error&) {
      const auto signal = interrupt.received();
      if (!signal || !training.cancel || !training.cancel->is_cancelled()) throw;
      throw StoppedBySignal(
          *signal, base::str_cat("stopped by ", signal_name(*signal),
                                 " while waiting for the parameter servers or other workers; the "
                                 "servers keep every update that they acknowledged"));
    }
  }

  /// What a worker of a training with parameter servers reports: its own part, next to the job's.
  void add_worker(Json& report, const TrainingResult& result, const Prepared& prepared) const {
    // Others may have made an update before they saw that it was enough.
    if (prepared.steps) report["steps"] = std::min(result.steps, *prepared.steps);
    report["task"] = cluster::to_string(flags_.strategy.cluster.resolve().task);
    report["global_step"] = result.steps;
    report["worker_steps"] = result.own_steps;
    report["update_staleness"] = staleness_json(result.staleness);
    if (!prepared.strategy->is_chief()) report["weights_sha256"] = nullptr;
  }

  /// Whether this worker leaves evaluations and the profile to the chief.
  bool leaves_watching(const Prepared& prepared) const {
    return has_servers(flags_.strategy) && !prepared.strategy->is_chief();
  }

  /// Null without the test split, and in a worker that leaves evaluations to the chief.
  std::shared_ptr<EvaluationHook> evaluation_of(
      const Prepared& prepared, const Model& model,
      std::optional<optim::ExponentialMovingAverage>& averages, const Interrupt& interrupt) const {
    if (!prepared.test || leaves_watching(prepared)) return nullptr;
    const io::Path model_dir = flags_.checkpoints.model_dir;
    return std::make_shared<EvaluationHook>(EvaluationHook::Options{
        .strategy = *prepared.strategy,
        .model = model,
        .batches = *prepared.test,
        .interrupt = interrupt,
        .normalizer = prepared.normalizer,
        .every = flags_.watch.evaluations(),
        .averages = averages ? &*averages : nullptr,
        .directory = model_dir.empty() ? io::Path() : evaluations_in(model_dir)});
  }

  train::SessionOptions session_options(Prepared& prepared,
                                        const std::shared_ptr<EvaluationHook>& evaluation) const {
    train::SessionOptions options = flags_.checkpoints.session_options();
    flags_.watch.add_to(options, flags_.checkpoints.model_dir);
    if (!leaves_watching(prepared))
      flags_.watch.add_profile_to(options, flags_.checkpoints.model_dir);
    options.resume_from = prepared.resume_from;
    if (prepared.directory)
      options.scaffold.saver.on_saved = [&directory = *prepared.directory](std::int64_t step) {
        directory.record_saved_step(step);
      };
    if (evaluation && evaluates_meanwhile()) options.hooks.push_back(evaluation);
    if (evaluation && setting_.after_epoch)
      options.hooks.push_back(
          std::make_shared<EpochHook>(*evaluation, setting_.after_epoch, prepared.examples_in_pass,
                                      prepared.global_batch * flags_.accumulate));
    return options;
  }

  /// Epochs are evaluated by the same hook, whose results are in the checkpoints.
  bool evaluates_meanwhile() const {
    return !flags_.watch.evaluations().is_never() || setting_.after_epoch;
  }

  /// The evaluations during the training; the one at the end has its own keys in the JSON.
  std::map<std::int64_t, train::EvaluationResult> evaluations(
      const std::shared_ptr<EvaluationHook>& evaluation) const {
    if (!evaluation || !evaluates_meanwhile()) return {};
    return evaluation->results();
  }

  int finish(Prepared& prepared, const Json& config, const Json& result,
             std::optional<int> signal) const {
    const bool is_chief = prepared.strategy->is_chief();
    if (is_chief && prepared.directory)
      prepared.directory->write_run(run_json(config, result, steps_in_all(flags_, prepared)));
    if (is_chief || (has_servers(flags_.strategy) && flags_.output.json)) write(config, result);
    // An exception: a worker that was stopped must not leave its servers as finished.
    if (signal && has_servers(flags_.strategy)) throw StoppedBySignal(*signal, "");
    return signal ? exit_code_after(*signal) : kDone;
  }

  void write(const Json& config, const Json& result) const {
    const std::string& model_dir = flags_.checkpoints.model_dir;
    Json all = config;
    all.update(result);
    all["model_dir"] = model_dir.empty() ? Json(nullptr) : Json(model_dir);
    setting_.write(all, training_summary(result));
  }

  TrainFlags flags_;
  const TrainingSetting& setting_;
};

}  // namespace

int run_training_task(const TrainFlags& flags, const TrainingSetting& setting) {
  return TrainingRun(flags, setting).run();
}

}  // namespace brigade::command
