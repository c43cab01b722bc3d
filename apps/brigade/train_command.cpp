#include "apps/brigade/train_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/evaluation.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/optimizer_flags.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/training_loop.h"
#include "apps/brigade/weights.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/tuning/tuning.h"

namespace brigade::command {
namespace {

constexpr const char* kExamples = R"(Examples:
  brigade train --model-dir /tmp/run --epochs 2
      the MNIST CNN on Fashion-MNIST, one CPU
  brigade train --strategy mirrored --devices cpu:0,cpu:1 --batch-size 128 --epochs 5 --model-dir /tmp/run
      the same on two replicas, 256 examples a step
  brigade train --model mlp --dataset synthetic --steps 100 --optimizer sgd --learning-rate 0.1 --json
      a quick try, without files

SIGINT (Ctrl-C) and SIGTERM end the training after the current step; the weights are saved. A second
one ends it at once. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 SIGINT, 75 SIGTERM.)";

constexpr double kSecondsBetweenLines = 5.0;
constexpr double kSecondsBetweenRewrites = 0.5;

using Batches = data::Dataset<input::LabeledBatch>;

struct TrainFlags {
  ModelFlags model;
  DataFlags data;
  PipelineFlags pipeline;
  BatchFlags batch;
  StrategyFlags strategy;
  OptimizerFlags optimizer;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::string model_dir;
  bool overwrite = false;
  std::string eval = "end";
  std::optional<double> log_every;
  bool json = false;

  void add_to(CLI::App& app);
  void check() const;
};

void TrainFlags::add_to(CLI::App& app) {
  model.add_to(app);
  data.add_to(app);
  pipeline.add_to(app);
  strategy.add_to(app);
  optimizer.add_to(app);
  batch.add_to(app);
  app.add_option("--epochs", epochs, "Passes over the training examples (default 1)")
      ->group("Steps");
  app.add_option("--steps", steps, "Steps, over as many passes as they need")->group("Steps");
  app.add_option("--model-dir", model_dir,
                 "Folder for weights.safetensors and run.json; without it the weights are dropped")
      ->group("Output");
  app.add_flag("--overwrite", overwrite, "Replace the run that the model directory holds")
      ->group("Output");
  app.add_option("--eval", eval, "Evaluate on the test split: end, none")
      ->capture_default_str()
      ->group("Output");
  app.add_option("--log-every", log_every, "Seconds between progress reports on standard error")
      ->group("Output");
  app.add_flag("--json", json, "Write one JSON object to standard output")->group("Output");
}

void TrainFlags::check() const {
  model.options();
  data.check();
  pipeline.check();
  batch.check();
  if (epochs && steps) throw UsageError("--epochs and --steps exclude each other");
  if (epochs) check_at_least("--epochs", *epochs, 1);
  if (steps) check_at_least("--steps", *steps, 1);
  check_choice("value of --eval", eval, {"end", "none"});
  if (log_every && !(*log_every >= 0.0 && *log_every <= 1e6)) {
    throw UsageError(base::str_cat("--log-every is ", *log_every, "; give seconds, 0 to 1000000"));
  }
}

// All that a training needs, checked; nothing has been written yet.
struct Prepared {
  optim::UpdateRulePtr rule;
  std::optional<RunDirectory> directory;
  std::unique_ptr<distribute::Strategy> strategy;
  std::int64_t global_batch = 0;
  std::optional<Batches> train;
  std::optional<Batches> test;
};

Prepared prepare(const TrainFlags& flags) {
  flags.check();
  Prepared prepared;
  prepared.rule = flags.optimizer.rule();
  if (!flags.model_dir.empty()) {
    prepared.directory.emplace(io::posix_file_system(), flags.model_dir);
    prepared.directory->check(flags.overwrite ? Overwrite::kYes : Overwrite::kNo);
  }
  prepared.strategy = flags.strategy.make();
  prepared.global_batch = flags.batch.global_size(prepared.strategy->num_replicas_in_sync());
  if (flags.eval == "end") {
    prepared.test = flags.data.load(input::Split::kTest).batch(prepared.global_batch);
  }
  const std::int64_t passes = flags.steps ? data::kForever : flags.epochs.value_or(1);
  prepared.train = flags.pipeline.apply(flags.data.load(input::Split::kTrain))
                       .repeat(passes)
                       .batch(prepared.global_batch)
                       .prefetch(data::kAutotune);
  return prepared;
}

Json configuration(const TrainFlags& flags, const Prepared& prepared) {
  const optim::Hyperparameters rates = prepared.rule->defaults();
  Json json;
  json["model"] = flags.model.model;
  json["dataset"] = flags.data.dataset;
  json["strategy"] = prepared.strategy->name();
  json["replicas"] = prepared.strategy->num_replicas_in_sync();
  json["devices"] = device_names(*prepared.strategy);
  json["threads_per_replica"] = flags.strategy.threads_per_replica;
  json["global_batch_size"] = prepared.global_batch;
  json["optimizer"] = prepared.rule->name();
  json["learning_rate"] = rates.learning_rate;
  json["weight_decay"] = rates.weight_decay;
  json["momentum"] = flags.optimizer.momentum.value_or(0.0);
  json["dropout"] = flags.model.dropout;
  json["augment"] = flags.pipeline.augment;
  json["shuffle_buffer"] = flags.pipeline.shuffle_buffer;
  json["seed"] = flags.strategy.seed;
  return json;
}

template <class T>
Json number_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json result_json(const TrainingResult& result,
                 const std::optional<train::EvaluationResult>& evaluation,
                 const std::string& weights_sha256) {
  Json json;
  json["steps"] = result.steps;
  json["examples"] = result.examples;
  json["examples_per_second"] = result.examples_per_second;
  json["warmup_steps"] = result.warmup_steps;
  json["examples_per_second_total"] = result.examples_per_second_total;
  json["seconds"] = result.seconds;
  json["final_loss"] = number_or_null(result.final_loss);
  json["eval_accuracy"] = evaluation ? Json(evaluation->accuracy) : Json(nullptr);
  json["eval_loss"] = evaluation ? Json(evaluation->loss) : Json(nullptr);
  json["eval_examples"] = evaluation ? evaluation->examples : 0;
  json["weights_sha256"] = weights_sha256;
  json["peak_memory_bytes"] = peak_memory();
  json["tuning"] = tuning::report().describe();
  json["interrupted"] = result.signal.has_value();
  json["signal"] = result.signal ? Json(signal_name(*result.signal)) : Json(nullptr);
  return json;
}

std::string run_json(const Json& configuration, const Json& result) {
  Json run;
  run["format"] = 1;
  run["configuration"] = configuration;
  run["result"] = result;
  return run.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

train::ProgressOptions progress_options(const TrainFlags& flags,
                                        std::optional<std::int64_t> total_steps) {
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const double usual = on_terminal ? kSecondsBetweenRewrites : kSecondsBetweenLines;
  const auto interval = std::chrono::duration<double>(flags.log_every.value_or(usual));
  return {.total_steps = total_steps,
          .interval = std::chrono::duration_cast<std::chrono::milliseconds>(interval),
          .form = on_terminal ? train::ProgressForm::kRewrite : train::ProgressForm::kLines};
}

std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Batches& batches) {
  if (flags.steps) return flags.steps;
  if (batches.cardinality() < 0) return std::nullopt;
  return batches.cardinality();
}

void announce(const TrainFlags& flags, const Prepared& prepared,
              std::optional<std::int64_t> total_steps) {
  std::cerr << base::str_cat(
      "training ", flags.model.model, " on ", flags.data.dataset, ", ", prepared.strategy->name(),
      " on ", base::join(device_names(*prepared.strategy), " "), ", ", total_steps.value_or(0),
      " steps of ", prepared.global_batch, " examples\n");
}

// What a person who sent the signal wants to know.
void tell_interrupted(const TrainingResult& result, std::optional<std::int64_t> total_steps,
                      const Prepared& prepared) {
  std::cerr << "brigade: stopped by " << signal_name(*result.signal) << " after step "
            << result.steps;
  if (total_steps) std::cerr << " of " << *total_steps;
  if (prepared.directory) {
    std::cerr << "; the weights are saved in " << prepared.directory->path().string() << std::endl;
  } else {
    std::cerr << "; without --model-dir the weights are dropped" << std::endl;
  }
}

std::string summary(const Json& result) {
  std::string text =
      base::str_cat("steps            ", result["steps"].get<std::int64_t>(), "\nexamples/s       ",
                    fixed(result["examples_per_second"].get<double>(), 0), "\n");
  if (!result["final_loss"].is_null()) {
    text += base::str_cat("final loss       ", fixed(result["final_loss"].get<double>(), 4), "\n");
  }
  if (!result["eval_accuracy"].is_null()) {
    text +=
        base::str_cat("test accuracy    ", fixed(100 * result["eval_accuracy"].get<double>(), 2),
                      " %\ntest loss        ", fixed(result["eval_loss"].get<double>(), 4), "\n");
  }
  return text +
         base::str_cat("weights sha256   ", result["weights_sha256"].get<std::string>(), "\n");
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
      set_up([&] { prepared.directory->claim(run_json(config, nullptr)); });
    }
    return train(prepared, config);
  }

 private:
  int train(Prepared& prepared, const Json& config) const {
    const Interrupt interrupt;
    const auto total_steps = steps_in_all(flags_, *prepared.train);
    announce(flags_, prepared, total_steps);
    const Model model = flags_.model.create(*prepared.strategy);
    const auto minimizer = prepared.strategy->make_minimizer(model.variables(), prepared.rule);
    const base::SystemClock clock;
    train::Progress progress(std::cerr, clock, progress_options(flags_, total_steps));
    TrainingResult result = run_training({.step = {*prepared.strategy, model, minimizer},
                                          .batches = *prepared.train,
                                          .steps = flags_.steps},
                                         progress, interrupt);
    const auto weights = weights_of(model.variables());
    if (prepared.directory) prepared.directory->save_weights(weights);
    if (result.signal) tell_interrupted(result, total_steps, prepared);
    if (result.final_loss && !std::isfinite(*result.final_loss)) {
      std::cerr << "brigade: warning: the loss is not finite; lower --learning-rate" << std::endl;
    }
    std::optional<train::EvaluationResult> evaluation;
    if (prepared.test && !result.signal) {
      evaluation =
          evaluate_unless_interrupted(*prepared.strategy, model, *prepared.test, interrupt);
      result.signal = interrupt.received();
      if (result.signal && !evaluation) tell_interrupted(result, total_steps, prepared);
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
