#include "apps/brigade/train_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/evaluation.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/train_report.h"
#include "apps/brigade/train_setup.h"
#include "apps/brigade/training_loop.h"
#include "apps/brigade/weights.h"
#include "brigade/checkpoint/weights_hash.h"

namespace brigade::command {
namespace {

constexpr const char* kExamples = R"(Examples:
  brigade train --model-dir /tmp/run --epochs 2
      the MNIST CNN on Fashion-MNIST, one CPU
  brigade train --strategy mirrored --devices cpu:0,cpu:1 --batch-size 128 --epochs 5 --model-dir /tmp/run
      the same on two replicas, 256 examples a step
  brigade train --strategy towers --devices cpu:0,cpu:1 --controller cpu:0 --accumulate 4 --model-dir /tmp/run
      in-graph towers around a controller, four batches a step
  brigade train --model mlp --dataset synthetic --steps 100 --optimizer sgd --learning-rate 0.1 --json
      a quick try, without files

SIGINT (Ctrl-C) and SIGTERM end the training after the current step; everything is saved. A second one
ends it at once. The same command again goes on where it was, as it does after a crash. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 SIGINT, 75 SIGTERM.)";

constexpr double kSecondsBetweenLines = 5.0;
constexpr double kSecondsBetweenRewrites = 0.5;

train::ProgressOptions progress_options(const TrainFlags& flags,
                                        std::optional<std::int64_t> total_steps) {
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const double usual = on_terminal ? kSecondsBetweenRewrites : kSecondsBetweenLines;
  const auto interval = std::chrono::duration<double>(flags.log_every.value_or(usual));
  return {.total_steps = total_steps,
          .interval = std::chrono::duration_cast<std::chrono::milliseconds>(interval),
          .form = on_terminal ? train::ProgressForm::kRewrite : train::ProgressForm::kLines};
}

class TrainCommand final : public Command {
 public:
  explicit TrainCommand(CLI::App& parent)
      : parser_(*parent.add_subcommand("train", "Train a model and save its weights")) {
    flags_.add_to(parser_);
    parser_.footer(kExamples);
  }
  const CLI::App& parser() const override { return parser_; }

  int run() override {
    Prepared prepared = set_up([&] { return prepare(flags_); });
    const Json config = configuration(flags_, prepared);
    if (prepared.directory) {
      set_up(
          [&] { prepared.directory->open(flags_.held_run(), config, run_json(config, nullptr)); });
    }
    return train(prepared, config);
  }

 private:
  int train(Prepared& prepared, const Json& config) const {
    const Interrupt interrupt;
    const auto total_steps = steps_in_all(flags_, prepared);
    announce(flags_, prepared);
    const Model model = flags_.model.create(*prepared.strategy);
    const auto minimizer = prepared.strategy->make_minimizer(
        model.variables(), prepared.rule, {.accumulate = static_cast<int>(flags_.accumulate)});
    const base::SystemClock clock;
    train::Progress progress(std::cerr, clock, progress_options(flags_, total_steps));
    TrainingResult result =
        run_training({.step = {*prepared.strategy, model, minimizer},
                      .batches = *prepared.train,
                      .steps = flags_.steps,
                      .optimizer = std::string(prepared.rule->name()),
                      .session = flags_.checkpoints.session_options(flags_.model_dir)},
                     progress, interrupt);
    tell_shares(result);
    const auto weights = weights_of(model.variables());
    if (prepared.directory) prepared.directory->save_weights(weights);
    if (result.signal) tell_interrupted(result, total_steps, prepared);
    warn_of_divergence(result);
    std::optional<train::EvaluationResult> evaluation;
    if (prepared.test && !result.signal) {
      evaluation =
          evaluate_unless_interrupted(*prepared.strategy, model, *prepared.test, interrupt);
      if (!evaluation) {
        result.signal = interrupt.received();
        tell_interrupted(result, total_steps, prepared);
      }
    }
    return finish(prepared, config,
                  result_json(result, evaluation, checkpoint::weights_sha256(weights)),
                  result.signal);
  }

  int finish(Prepared& prepared, const Json& config, const Json& result,
             std::optional<int> signal) const {
    if (prepared.directory) prepared.directory->write_run(run_json(config, result));
    if (flags_.json) {
      Json all = config;
      all.update(result);
      all["model_dir"] = flags_.model_dir.empty() ? Json(nullptr) : Json(flags_.model_dir);
      print_json(all);
    } else {
      print_text(summary(result));
    }
    return signal ? exit_code_after(*signal) : kDone;
  }

  CLI::App& parser_;
  TrainFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_train_command(CLI::App& parent) {
  return std::make_unique<TrainCommand>(parent);
}

}  // namespace brigade::command
