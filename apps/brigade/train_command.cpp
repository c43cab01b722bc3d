#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/train_report.h"
#include "apps/brigade/train_setup.h"
#include "apps/brigade/training_loop.h"
#include "apps/brigade/weights.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/weights_hash.h"

namespace brigade::command {
namespace {

constexpr const char* kTrainExamples = R"(Examples:
  brigade train --model-dir /tmp/run --epochs 2
      the MNIST CNN on Fashion-MNIST, one CPU
  brigade train --strategy mirrored --devices cpu:0,cpu:1 --batch-size 128 --epochs 5 --model-dir /tmp/run
      the same on two replicas, 256 examples a step
  brigade train --strategy towers --devices cpu:0,cpu:1 --controller cpu:0 --accumulate 4 --model-dir /tmp/run
      in-graph towers around a controller, four batches a step
  brigade train --model-dir /tmp/run --epochs 5 --save-every 100s,500steps --keep-last 3 --eval-every 200steps
      saved every 100 seconds and every 500 steps; the accuracy on the test split every 200 steps
  brigade train --model-dir /tmp/other --epochs 9 --resume /tmp/run/checkpoints/ckpt-500
      another run that starts from that checkpoint
  brigade train --model-dir /tmp/run --steps 100 --summaries-every 10steps --profile-steps 20:30
      the loss every 10 steps for TensorBoard, and a trace of steps 20 to 30 for ui.perfetto.dev
  TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}' \
      brigade train --strategy multi_worker_mirrored --key-file cluster.key --model-dir /shared/run
      this one of two workers; the same on b with index 1 (one machine: brigade launch --nproc 2 -- brigade train ...)
  brigade train --model mlp --dataset synthetic --steps 100 --optimizer sgd --learning-rate 0.1 --json
      a quick test without files

SIGINT (Ctrl-C), SIGTERM and SIGHUP end the training after the current step; everything is saved. A second
signal ends it immediately. The same command again resumes the training, also after a crash; with more steps
or epochs it also resumes a finished run. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 SIGINT, 75 SIGTERM or SIGHUP.)";

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

class TrainCommand final : public Command {
 public:
  explicit TrainCommand(CLI::App& parent)
      : Command(parent, "train", "Train a model and save its weights") {
    flags_.add_to(parser_);
    parser_.footer(kTrainExamples);
  }

  int run() override {
    if (flags_.strategy.is_evaluator()) return run_evaluator(flags_);
    Prepared prepared = set_up([&] { return prepare(flags_); });
    const Json config = configuration(flags_, prepared);
    const distribute::Strategy& strategy = *prepared.strategy;
    set_up([&] { check_same_training(flags_, prepared, config); });
    Json stored;
    if (prepared.directory && strategy.is_chief())
      stored = set_up([&] { return open(prepared, config); });
    if (strategy.broadcast_from_chief(std::int64_t{!stored.is_null()}) == 0)
      return train(prepared, config);
    if (strategy.is_chief()) {
      report_finished(stored, prepared);
      write(config, stored);
    }
    return kDone;
  }

 private:
  /// The result, if the run in the directory is finished; else null, after preparing the directory.
  Json open(Prepared& prepared, const Json& config) const {
    const ExistingRun existing = flags_.checkpoints.existing_run();
    prepared.directory->lock();
    prepared.directory->check(existing);  // again: another training may have ended there meanwhile
    if (existing != ExistingRun::kReplace) {
      Json stored = prepared.directory->finished(config, prepared.length);
      if (!stored.is_null()) return stored;
    }
    prepared.directory->open(existing, config, run_json(config, nullptr));
    return nullptr;
  }

  int train(Prepared& prepared, const Json& config) const {
    const Interrupt interrupt;
    const auto total_steps = steps_in_all(flags_, prepared);
    const bool is_chief = prepared.strategy->is_chief();
    if (is_chief) announce(flags_, prepared);
    const Model model = flags_.model.create(*prepared.strategy);
    const auto optimizer = prepared.strategy->make_optimizer(
        model.variables(), prepared.rule, {.accumulate = static_cast<int>(flags_.accumulate)});
    const auto evaluation = evaluation_of(prepared, model, interrupt);
    const base::SystemClock clock;
    std::ostream nowhere(nullptr);
    train::Progress progress(is_chief ? std::cerr : nowhere, clock,
                             progress_options(flags_, total_steps));
    TrainingResult result = run_training({.step = {*prepared.strategy, model, optimizer},
                                          .batches = *prepared.train,
                                          .steps = flags_.steps,
                                          .optimizer = std::string(prepared.rule->name()),
                                          .session = session_options(prepared, evaluation),
                                          .evaluation = evaluation},
                                         progress, interrupt);
    if (is_chief) report_step_breakdown(result);
    const auto weights = weights_of(model.variables());
    const std::string weights_sha256 = checkpoint::weights_sha256(weights);
    check_same_weights(*prepared.strategy, weights_sha256);
    if (prepared.directory && is_chief) prepared.directory->save_weights(weights, result.steps);
    if (result.signal && is_chief) report_interrupted(result, total_steps, prepared);
    if (is_chief) warn_of_divergence(result);
    std::optional<train::EvaluationResult> at_end;
    if (flags_.watch.evaluates_at_end() && !result.signal) {
      at_end = evaluation->evaluate(result.steps);
      if (!at_end) {
        result.signal = interrupt.received();
        report_interrupted(result, total_steps, prepared);
      }
    }
    return finish(prepared, config,
                  result_json(result, at_end, evaluations(evaluation), weights_sha256),
                  result.signal);
  }

  /// Null without the test split.
  std::shared_ptr<EvaluationHook> evaluation_of(const Prepared& prepared, const Model& model,
                                                const Interrupt& interrupt) const {
    if (!prepared.test) return nullptr;
    const io::Path model_dir = flags_.checkpoints.model_dir;
    return std::make_shared<EvaluationHook>(EvaluationHook::Options{
        .strategy = *prepared.strategy,
        .model = model,
        .batches = *prepared.test,
        .interrupt = interrupt,
        .every = flags_.watch.evaluations(),
        .directory = model_dir.empty() ? io::Path() : evaluations_in(model_dir)});
  }

  train::SessionOptions session_options(Prepared& prepared,
                                        const std::shared_ptr<EvaluationHook>& evaluation) const {
    train::SessionOptions options = flags_.checkpoints.session_options();
    flags_.watch.add_to(options, flags_.checkpoints.model_dir);
    options.resume_from = prepared.resume_from;
    if (prepared.directory)
      options.scaffold.saver.on_saved = [&directory = *prepared.directory](std::int64_t step) {
        directory.record_saved_step(step);
      };
    if (!flags_.watch.evaluations().is_never()) options.hooks.push_back(evaluation);
    return options;
  }

  /// The evaluations during the training; the one at the end has its own keys in the JSON.
  std::map<std::int64_t, train::EvaluationResult> evaluations(
      const std::shared_ptr<EvaluationHook>& evaluation) const {
    if (flags_.watch.evaluations().is_never()) return {};
    return evaluation->results();
  }

  int finish(Prepared& prepared, const Json& config, const Json& result,
             std::optional<int> signal) const {
    if (prepared.strategy->is_chief()) {
      if (prepared.directory) prepared.directory->write_run(run_json(config, result));
      write(config, result);
    }
    return signal ? exit_code_after(*signal) : kDone;
  }

  void write(const Json& config, const Json& result) const {
    const std::string& model_dir = flags_.checkpoints.model_dir;
    Json all = config;
    all.update(result);
    all["model_dir"] = model_dir.empty() ? Json(nullptr) : Json(model_dir);
    flags_.output.print(all, summary(result));
  }

  TrainFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_train_command(CLI::App& parent) {
  return std::make_unique<TrainCommand>(parent);
}

}  // namespace brigade::command
