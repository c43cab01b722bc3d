#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/brigade/commands.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/training_step.h"
#include "brigade/base/strings.h"
#include "brigade/device/event_timeline.h"
#include "brigade/device/memory_peak.h"
#include "brigade/device/stream.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/input/synthetic.h"
#include "brigade/machine/process_memory.h"
#include "brigade/machine/topology.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {
namespace {

constexpr const char* kBenchExamples = R"(Examples:
  brigade bench
      the MNIST CNN at batch 128 on one CPU
  brigade bench --strategy mirrored --devices cpu:0,cpu:1 --steps 100 --json
      the same on two replicas, with JSON output)";

constexpr std::int64_t kDistinctBatches = 4;

using Batch = distribute::PerReplica<input::LabeledBatch>;

std::vector<Batch> make_batches(const distribute::Strategy& strategy, std::int64_t global_batch,
                                const ImageInput& image) {
  const auto examples = input::synthetic(kDistinctBatches * global_batch,
                                         {image.shape.begin(), image.shape.end()}, image.classes);
  std::vector<Batch> batches;
  for (const auto& batch : strategy.distribute(examples.batch(global_batch))) {
    batches.push_back(batch);
  }
  return batches;
}

/// Measures steps one after another: on CPUs the host's time, on GPUs that of the first replica's
/// card, for which the host does not wait.
class StepStopwatch {
 public:
  explicit StepStopwatch(const distribute::Strategy& strategy) {
    const c10::Device device = strategy.devices().front().torch_device;
    if (!device.is_cpu()) on_card_.emplace(device::current_stream(device));
    step_done();
  }

  void step_done() {
    if (on_card_) return on_card_->mark();
    times_.push_back(std::chrono::steady_clock::now());
  }

  /// Of the steps that are done, when the card has done them too.
  std::vector<double> seconds() {
    std::vector<double> seconds;
    for (std::size_t i = 1; i < times_.size(); ++i)
      seconds.push_back(seconds_between(times_[i - 1], times_[i]));
    while (on_card_) {
      const auto time = on_card_->take();
      if (!time) break;
      seconds.push_back(std::chrono::duration<double>(*time).count());
    }
    return seconds;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> times_;
  std::optional<device::EventTimeline> on_card_;
};

struct MeasuredSteps {
  std::vector<double> seconds;  // of each
  double total = 0.0;           // with waits for the devices at both ends only
};

MeasuredSteps time_steps(const TrainingStep& step, const std::vector<Batch>& batches,
                         std::int64_t warmup, std::int64_t steps) {
  const auto run = [&](std::int64_t i) {
    step.run(batches[static_cast<std::size_t>(i) % batches.size()]);
  };
  for (std::int64_t i = 0; i < warmup; ++i) run(i);
  step.strategy.wait_for_devices();
  const auto begin = std::chrono::steady_clock::now();
  StepStopwatch timer(step.strategy);
  for (std::int64_t i = 0; i < steps; ++i) {
    run(warmup + i);
    timer.step_done();
  }
  step.strategy.wait_for_devices();
  const double total = seconds_between(begin, std::chrono::steady_clock::now());
  return {.seconds = timer.seconds(), .total = total};
}

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(fraction * last + 0.5)];
}

class BenchCommand final : public Command {
 public:
  explicit BenchCommand(CLI::App& parent)
      : Command(parent, "bench", "Measure training steps on data in memory") {
    model_.add_to(parser_);
    FlagGroup data(parser_, "Data");
    data.add("--image-size", data_.image_size,
             "Height and width of the images (default the size that the model was made for)");
    data.add("--classes", data_.classes, "Number of classes (default 10)");
    strategy_.add_to(parser_);
    optimizer_.add_to(parser_);
    batch_.add_to(parser_);
    FlagGroup steps(parser_, "Steps");
    steps.add("--steps", steps_, "Steps to measure");
    steps.add("--warmup-steps", warmup_, "Steps before the measurement");
    output_.add_to(parser_);
    parser_.footer(kBenchExamples);
  }

  int run() override {
    model_.options();
    data_.check();
    batch_.check();
    check_at_least("--steps", steps_, 1);
    check_at_least("--warmup-steps", warmup_, 0);
    const optim::UpdateRulePtr rule = optimizer_.rule();
    strategy_.check_not_only_training("measure");
    const auto strategy = strategy_.make();
    const std::int64_t batch = batch_.global_size(strategy->num_replicas_in_sync());
    set_up([&] { check_same_bench(*strategy, batch); });
    const ImageInput image = data_.image_input(model_.model);
    const Model model = model_.create(*strategy, image);
    distribute::OptimizerOptions options = strategy_.optimizer_options();
    options.groups = optimizer_.groups(model.variables());
    const auto optimizer = strategy->make_optimizer(model.variables(), rule, options);
    TrainingStep step{*strategy, model, optimizer};
    if (strategy_.compile) step.compile();
    const auto measured = time_steps(step, make_batches(*strategy, batch, image), warmup_, steps_);
    report(step, batch, measured);
    return kDone;
  }

 private:
  // The optimizer is compared when it is made.
  void check_same_bench(const distribute::Strategy& strategy, std::int64_t batch) const {
    distribute::check_agreement(
        strategy.workers(),
        {{"model", model_.model},
         {"hidden", model_.hidden},
         {"dropout", Json(model_.dropout.value_or(0.0)).dump()},
         {"image_size", base::str_cat(data_.image_size.value_or(0))},
         {"classes", base::str_cat(data_.classes.value_or(0))},
         {"global_batch_size", base::str_cat(batch)},
         {"warmup_steps", base::str_cat(warmup_)},
         {"steps", base::str_cat(steps_)}},
        {.what = "benchmarks", .advice = "start every worker with the same flags"});
  }

  Json result(const TrainingStep& step, std::int64_t batch, const MeasuredSteps& measured) const {
    const distribute::Strategy& strategy = step.strategy;
    Json json;
    json["model"] = model_.model;
    Json configuration;
    model_.describe(configuration);
    json["memory_format"] = configuration["memory_format"];
    json["strategy"] = strategy.name();
    json["replicas"] = strategy.num_replicas_in_sync();
    json["devices"] = device_names(strategy);
    json["threads_per_replica"] = strategy_.threads_per_replica;
    json["precision"] = strategy_.precision;
    json["numerics"] = strategy_.numerics;
    step.describe(json);
    json["optimizer"] = optimizer_.optimizer;
    json["global_batch_size"] = batch;
    json["steps"] = steps_;
    json["warmup_steps"] = warmup_;
    json["images_per_second"] = static_cast<double>(batch * steps_) / measured.total;
    json["milliseconds_per_step_median"] = 1e3 * quantile(measured.seconds, 0.5);
    json["milliseconds_per_step_p90"] = 1e3 * quantile(measured.seconds, 0.9);
    json["peak_memory_bytes"] = machine::process_memory().peak;
    const auto on_gpus = device::gpu_memory_peak(strategy.devices());
    json["peak_gpu_memory_bytes"] = on_gpus ? Json(*on_gpus) : Json(nullptr);
    json["processor"] = machine::processor_name();
    json["tuning"] = tuning::report().describe();
    return json;
  }

  void report(const TrainingStep& step, std::int64_t batch, const MeasuredSteps& measured) const {
    const distribute::Strategy& strategy = step.strategy;
    const Json json = result(step, batch, measured);
    output_.print(
        json,
        base::str_cat(
            model_.model, ", ", strategy.name(), " on ", base::join(device_names(strategy), " "),
            ", ", batch, " examples a step, ", steps_, " steps\n", "images/s         ",
            fixed(json["images_per_second"].get<double>(), 0), "\nms a step        ",
            fixed(json["milliseconds_per_step_median"].get<double>(), 3), " median, ",
            fixed(json["milliseconds_per_step_p90"].get<double>(), 3), " p90\npeak memory      ",
            base::human_bytes(static_cast<std::uint64_t>(machine::process_memory().peak)),
            "\nprocessor        ", machine::processor_name(), "\ntuning           ",
            tuning::report().describe(), "\n"));
  }

  ModelFlags model_;
  StrategyFlags strategy_;
  OptimizerFlags optimizer_;
  BatchFlags batch_;
  std::int64_t steps_ = 50;
  std::int64_t warmup_ = 5;
  DataFlags data_{.dataset = "synthetic"};
  OutputFlag output_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command(CLI::App& parent) {
  return std::make_unique<BenchCommand>(parent);
}

}  // namespace brigade::command
