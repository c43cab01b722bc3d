#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/report.h"
#include "apps/brigade/sweep_display.h"
#include "apps/brigade/sweep_plan.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/training_process.h"
#include "apps/brigade/training_run.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/independent_strategy.h"
#include "brigade/io/atomic_write.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::command {
namespace {

constexpr const char* kSweepExamples = R"(Examples:
  brigade sweep --param learning_rate=0.1,0.03,0.01,0.003 --devices cpu:0,cpu:1 --epochs 2
      four trainings of the MNIST CNN on Fashion-MNIST, two at a time
  brigade sweep --param learning_rate=0.1,0.01 --param batch_size=32,64 --epochs 5 --model-dir /tmp/sweep
      a grid of four, each with its model directory, /tmp/sweep/trial-0 and so on; the same command resumes them
  brigade sweep --param seed=0,1,2,3,4,5,6,7 --epochs 10 --stop-early median --grace-epochs 2 --json
      trainings that are worse than the median of the others after an epoch end early
  brigade sweep --param learning_rate=0.1,0.01 --dataset image_folder --data-dir /data/pets --model resnet18 --share-data
      every image is decoded once for both trainings

Names are those of the flags of `brigade train`. Exit codes: 0 every trial completed or stopped early, 1 one failed,
2 wrong usage or input, 130 SIGINT, 75 SIGTERM or SIGHUP.)";

// A batch or two; decoded images take up to a megabyte each.
constexpr std::int64_t kExamplesAhead = 256;

using distribute::Trial;
using distribute::TrialMetrics;
using distribute::TrialResult;
using distribute::TrialStatus;

/// The flags of `brigade sweep` that `brigade train` does not have.
struct SweepFlags {
  std::vector<std::string> parameters;
  std::optional<std::int64_t> parallel;
  std::string stop_early = "none";
  std::string stop_metric = "accuracy";
  std::int64_t grace_epochs = 1;
  bool share_data = false;
  bool stop_on_failure = false;
  bool processes = false;

  void add_to(CLI::App& app) {
    FlagGroup group(app, "Sweep");
    group
        .add("--param", parameters,
             "A flag of `brigade train` and its values. Several times: all combinations")
        ->option_text("NAME=VALUE,VALUE,...")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    group.add("--parallel", parallel,
              "Trials at the same time, on so many GPUs or CPUs, instead of --devices");
    group.add("--stop-early", stop_early,
              "none, or median: after each epoch of a trial its best value so far is compared with "
              "the median of the means of the other trials up to that epoch; if it is worse, the "
              "trial ends");
    group.add("--stop-metric", stop_metric, "accuracy or loss on the test split");
    group.add("--grace-epochs", grace_epochs, "Epochs after which no trial is stopped");
    group.add_switch("--share-data", share_data,
                     "Trials that run at the same time read every training example once for all, "
                     "and at the same pace");
    group.add_switch("--stop-on-failure", stop_on_failure,
                     "The first trial that fails ends the sweep");
    group.add_switch("--processes", processes, "Each trial in a separate process");
  }

  bool stops_early() const { return stop_early == "median"; }

  void check() const {
    check_choice("value of --stop-early", stop_early, {"none", "median"});
    check_choice("value of --stop-metric", stop_metric, {"accuracy", "loss"});
    check_at_least("--grace-epochs", grace_epochs, 0);
    if (parallel) check_at_least("--parallel", *parallel, 1);
    if (processes && share_data)
      throw UsageError("--processes and --share-data exclude each other: processes share no data");
    if (processes && stops_early())
      throw UsageError(
          "--processes and --stop-early exclude each other: only trials of one "
          "process are compared while they run");
  }

  std::optional<distribute::MedianStopping> stopping() const {
    if (!stops_early()) return std::nullopt;
    return distribute::MedianStopping{
        .metric = stop_metric, .maximize = stop_metric == "accuracy", .grace_epochs = grace_epochs};
  }
};

/// Parameters that do not change which examples are read, in which order.
bool keeps_data(const std::string& parameter) {
  static const std::set<std::string> kOthers = {
      "dataset", "data_dir", "train_examples", "image_size",  "resize", "classes", "seed",
      "augment", "model",    "shuffle_buffer", "map_threads", "mixup",  "cutmix"};
  return !kOthers.contains(parameter);
}

TrialMetrics metrics_of(const Json& report) {
  TrialMetrics metrics;
  const auto add = [&](const char* name, const char* key) {
    if (report.contains(key) && report[key].is_number()) metrics[name] = report[key].get<double>();
  };
  add("accuracy", "eval_accuracy");
  add("loss", "eval_loss");
  add("train_loss", "final_loss");
  return metrics;
}

Json value_or_text(const std::string& text) {
  const Json number = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return number.is_number() ? number : Json(text);
}

class SweepCommand final : public Command {
 public:
  explicit SweepCommand(CLI::App& parent)
      : Command(parent, "sweep",
                "Train independent models with different flags, and compare them") {
    sweep_.add_to(parser_);
    train_.add_to(parser_);
    parser_.footer(kSweepExamples);
  }

  int run() override {
    sweep_.check();
    check_train_flags();
    plan_ = plan_sweep(parser_, train_, sweep_.parameters);
    check_shared_data();
    reports_.resize(plan_.size());
    std::vector<std::string> labels;
    for (const PlannedTrial& trial : plan_) labels.push_back(trial.label());
    const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
    SweepDisplay display(std::cerr, labels,
                         on_terminal ? SweepDisplay::Form::kRewrite : SweepDisplay::Form::kLines);
    distribute::IndependentOptions options = independent_options();
    options.on_change = [&](const TrialResult& trial) { display.show(trial); };
    auto independent = set_up([&] { return distribute::IndependentStrategy(options); });
    load_shared_examples();
    // Lines of trials that are trained at the same time would say nothing.
    base::set_log_level(base::LogLevel::kWarning);
    const Interrupt interrupt;
    const auto begin = std::chrono::steady_clock::now();
    auto results = independent.run(static_cast<int>(plan_.size()), [&](Trial& trial) {
      return sweep_.processes ? train_in_process(trial, interrupt)
                              : train_in_this_process(trial, interrupt);
    });
    base::set_log_level(base::LogLevel::kInfo);
    const auto signal = interrupt.received();
    if (signal) mark_stopped(results);
    const Json json = result_json(independent, results,
                                  seconds_between(begin, std::chrono::steady_clock::now()), signal);
    save(json);
    train_.output.print(json, summary(results, labels, json));
    if (signal) return exit_code_after(*signal);
    return json["failed"].get<int>() > 0 ? kFailed : kDone;
  }

 private:
  void check_train_flags() const {
    if (train_.strategy.strategy != "one_device")
      throw UsageError("--strategy ", train_.strategy.strategy,
                       " is not for a sweep: each trial has one device");
    if (train_.checkpoints.resume != "auto" && train_.checkpoints.resume != "never")
      throw UsageError("--resume PATH is not for a sweep, whose trials differ; use --init-from");
    if (sweep_.parallel && !train_.strategy.devices.empty())
      throw UsageError("--parallel and --devices exclude each other");
    if (sweep_.stops_early() && !train_.watch.evaluates_at_end())
      throw UsageError("--stop-early needs evaluations: leave out --eval");
  }

  void check_shared_data() const {
    if (!sweep_.share_data) return;
    for (const auto& [name, value] : plan_.front().parameters)
      if (!keeps_data(name))
        throw UsageError("--share-data: the parameter ", name, " changes the examples of a trial");
  }

  distribute::IndependentOptions independent_options() const {
    return {.devices = device_names_of_flags(),
            .threads_per_replica = train_.strategy.threads_per_replica,
            .allow_oversubscription = train_.strategy.allow_oversubscription,
            .max_ahead = kExamplesAhead,
            .stopping = sweep_.stopping(),
            .stop_on_failure = sweep_.stop_on_failure};
  }

  std::vector<std::string> device_names_of_flags() const {
    std::vector<std::string> names;
    if (sweep_.parallel) {
      const char* kind = device::available_gpus().empty() ? "cpu:" : "gpu:";
      for (std::int64_t i = 0; i < *sweep_.parallel; ++i) names.push_back(base::str_cat(kind, i));
      return names;
    }
    const std::string& flag = train_.strategy.devices;
    for (std::size_t begin = 0; !flag.empty() && begin <= flag.size();) {
      const std::size_t end = std::min(flag.find(',', begin), flag.size());
      names.push_back(flag.substr(begin, end - begin));
      begin = end + 1;
    }
    return names;
  }

  void load_shared_examples() {
    if (!sweep_.share_data) return;
    const TrainFlags& flags = plan_.front().flags;
    shared_ = set_up(
        [&] { return flags.pipeline.load(flags.data, flags.data.image_input(flags.model.model)); });
  }

  TrainFlags flags_of(const Trial& trial) const {
    TrainFlags flags = plan_[static_cast<std::size_t>(trial.index())].flags;
    flags.strategy.devices = trial.device();
    flags.strategy.allow_oversubscription = true;  // the devices were checked together
    return flags;
  }

  static void check_not_stopped(const Interrupt& interrupt) {
    if (const auto signal = interrupt.received())
      throw Error(ErrorCode::kCancelled, "stopped by ", signal_name(*signal));
  }

  TrialMetrics train_in_this_process(Trial& trial, const Interrupt& interrupt) {
    check_not_stopped(interrupt);
    TrainFlags flags = flags_of(trial);
    set_up([&] { flags.fine_tuning.choose_original(flags.model); });
    Json& report = reports_[static_cast<std::size_t>(trial.index())];
    std::ostream nowhere(nullptr);
    TrainingSetting setting{.log = nowhere,
                            .write = [&](const Json& all, const std::string&) { report = all; }};
    if (shared_) setting.examples = trial.dataset(*shared_);
    if (sweep_.stops_early())
      setting.after_epoch = [&](std::int64_t epoch, const train::EvaluationResult& result) {
        trial.report(epoch, {{"accuracy", result.accuracy}, {"loss", result.loss}});
        return trial.should_stop();
      };
    run_training_task(flags, setting);
    check_not_stopped(interrupt);
    return metrics_of(report);
  }

  TrialMetrics train_in_process(const Trial& trial, const Interrupt& interrupt) {
    check_not_stopped(interrupt);
    const auto index = static_cast<std::size_t>(trial.index());
    std::vector<std::string> arguments = common_arguments(parser_);
    for (const auto& [name, value] : plan_[index].parameters) {
      std::string flag = name;
      std::replace(flag.begin(), flag.end(), '_', '-');
      arguments.push_back(base::str_cat("--", flag, "=", value));
    }
    const TrainFlags flags = flags_of(trial);
    arguments.push_back(base::str_cat("--devices=", flags.strategy.devices));
    arguments.push_back("--allow-oversubscription");
    if (!flags.checkpoints.model_dir.empty())
      arguments.push_back(base::str_cat("--model-dir=", flags.checkpoints.model_dir));
    TrainingProcessResult result = run_training_process(arguments, interrupt);
    reports_[index] = std::move(result.report);
    check_not_stopped(interrupt);
    if (result.code != kDone)
      throw Error(ErrorCode::kAborted, result.message.empty()
                                           ? base::str_cat("it ended with ", result.code)
                                           : result.message);
    return metrics_of(reports_[index]);
  }

  /// Trials that a signal ended, or kept from beginning.
  static void mark_stopped(std::vector<TrialResult>& results) {
    for (TrialResult& each : results) {
      if (!each.error) continue;
      try {
        std::rethrow_exception(each.error);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kCancelled) each.status = TrialStatus::kCancelled;
      } catch (const std::exception&) {  // it has failed
      }
    }
  }

  Json row(const TrialResult& result) const {
    const auto index = static_cast<std::size_t>(result.index);
    const Json& report = reports_[index];
    Json json;
    json["trial"] = result.index;
    json["parameters"] = Json::object();
    for (const auto& [name, value] : plan_[index].parameters)
      json["parameters"][name] = value_or_text(value);
    json["device"] = result.device.empty() ? Json(nullptr) : Json(result.device);
    json["status"] = to_string(result.status);
    json["reason"] = result.reason.empty() ? Json(nullptr) : Json(result.reason);
    json["seconds"] = result.seconds;
    json["epochs"] = result.reports.empty() ? Json(nullptr) : Json(result.reports.back().epoch);
    for (const char* key :
         {"steps", "examples", "final_loss", "eval_loss", "eval_accuracy", "weights_sha256"})
      json[key] = report.contains(key) ? report[key] : Json(nullptr);
    const std::string& model_dir = plan_[index].flags.checkpoints.model_dir;
    json["model_dir"] = model_dir.empty() ? Json(nullptr) : Json(model_dir);
    return json;
  }

  /// The trial with the best accuracy, or without evaluations the least loss; null without either.
  static Json best_of(const Json& rows) {
    Json best;
    double best_value = 0.0;
    for (const Json& row : rows) {
      const bool has_accuracy = row["eval_accuracy"].is_number();
      if (!has_accuracy && !row["final_loss"].is_number()) continue;
      const double value =
          has_accuracy ? row["eval_accuracy"].get<double>() : -row["final_loss"].get<double>();
      if (!best.is_null() && value <= best_value) continue;
      best = row["trial"];
      best_value = value;
    }
    return best;
  }

  Json result_json(const distribute::IndependentStrategy& independent,
                   const std::vector<TrialResult>& results, double seconds,
                   std::optional<int> signal) const {
    Json json;
    json["devices"] = Json::array();
    for (const device::Device& each : independent.devices())
      json["devices"].push_back(each.name.to_string());
    json["processes"] = sweep_.processes;
    json["stop_early"] = sweep_.stop_early;
    json["shared_examples"] =
        sweep_.share_data ? Json(independent.shared_elements_made()) : Json(nullptr);
    json["seconds"] = seconds;
    json["trials"] = Json::array();
    int failed = 0;
    for (const TrialResult& each : results) {
      json["trials"].push_back(row(each));
      failed += each.status == TrialStatus::kFailed ? 1 : 0;
    }
    json["failed"] = failed;
    json["best"] = best_of(json["trials"]);
    json["interrupted"] = signal.has_value();
    json["signal"] = signal ? Json(signal_name(*signal)) : Json(nullptr);
    return json;
  }

  void save(const Json& json) const {
    const std::string& model_dir = train_.checkpoints.model_dir;
    if (model_dir.empty()) return;
    const auto files = io::posix_file_system();
    files->create_directories(model_dir);
    io::atomic_write(*files, io::Path(model_dir) / "sweep.json",
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  static std::string summary(const std::vector<TrialResult>& results,
                             const std::vector<std::string>& labels, const Json& json) {
    std::string text = distribute::trial_table(results, labels);
    if (!json["best"].is_null())
      text += base::str_cat("best             trial ", json["best"].get<int>(), "\n");
    return text;
  }

  SweepFlags sweep_;
  TrainFlags train_;
  std::vector<PlannedTrial> plan_;
  std::vector<Json> reports_;  // by trial; null: none
  std::optional<data::Dataset<input::LabeledExample>> shared_;
};

}  // namespace

std::unique_ptr<Command> make_sweep_command(CLI::App& parent) {
  return std::make_unique<SweepCommand>(parent);
}

}  // namespace brigade::command
