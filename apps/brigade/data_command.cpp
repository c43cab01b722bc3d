#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/brigade/commands.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/report.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/state_json.h"
#include "brigade/models/registry.h"

namespace brigade::command {
namespace {

constexpr const char* kDataExamples = R"(Examples:
  brigade data stats --augment random_crop
      how fast the input of `brigade train --augment random_crop` is, and its bottleneck
  brigade data stats --augment random_crop --step-ms 30 --json
      the same with training steps of 30 ms, with JSON output
  brigade data stats --augment random_crop --sweep
      autotuning compared with fixed numbers of threads)";

constexpr double kFewestSeconds = 0.01;

/// How long an input is measured: in seconds, or in batches if they are given. It sleeps for
/// `step_ms` between two batches.
struct InputLength {
  double seconds = 3;
  std::optional<std::int64_t> batches{};
  double step_ms = 0;
};

struct InputRun {
  std::string pipeline;
  std::int64_t batches = 0;
  double seconds = 0;
  double examples_per_second = 0;
  /// The size of the saved position.
  std::size_t position_bytes = 0;
  std::vector<data::StageStats> steps{};
};

/// The same input with autotuning and with fixed settings.
struct InputSweep {
  struct Fixed {
    std::int64_t map_threads;
    std::int64_t prefetch;
    double examples_per_second;
  };
  InputRun autotuned;
  std::vector<Fixed> fixed{};

  const Fixed& best() const;
};

using Clock = std::chrono::steady_clock;
using BatchIterator = data::Iterator<input::LabeledBatch>;

constexpr double kLongestWarmup = 1;

struct Measured {
  std::int64_t batches = 0;
  std::int64_t examples = 0;
  double seconds = 0;
};

Measured read_batches(BatchIterator& batches, const InputLength& length) {
  const auto begin = Clock::now();
  Measured done;
  const auto is_over = [&] {
    done.seconds = seconds_between(begin, Clock::now());
    return length.batches ? done.batches >= *length.batches : done.seconds >= length.seconds;
  };
  while (!is_over()) {
    const auto batch = batches.next();
    if (!batch) break;
    ++done.batches;
    done.examples += data::Structure<input::LabeledExample>::size(*batch);
    if (length.step_ms > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(length.step_ms));
    }
  }
  return done;
}

Json json_of(const data::StageStats& step) {
  return {{"name", step.name},
          {"elements", step.elements},
          {"elements_per_second", step.elements_per_second},
          {"threads", step.threads},
          {"capacity", step.capacity},
          {"queue_depth", step.queue_depth},
          {"busy", step.busy},
          {"without_core", step.delayed},
          {"stall", step.stall},
          {"starved", step.starved}};
}

/// Reads batches. The warm-up, in which autotuning finds its settings, is not measured.
InputRun run_input(const data::Dataset<input::LabeledBatch>& batches, const InputLength& length) {
  const auto stages = std::make_shared<data::Stages>(
      data::StagesOptions{.count = data::StagesOptions::Count::kAll});
  auto iterator = batches.iterator({.stages = stages});
  InputLength warmup = length;
  warmup.seconds = std::min(length.seconds, kLongestWarmup);
  if (warmup.batches) warmup.batches = std::max<std::int64_t>(1, *warmup.batches / 5);
  read_batches(iterator, warmup);
  stages->clear();
  const Measured done = read_batches(iterator, length);
  return {.pipeline = batches.describe(),
          .batches = done.batches,
          .seconds = done.seconds,
          .examples_per_second = static_cast<double>(done.examples) / done.seconds,
          .position_bytes = io::stored_bytes(iterator.save()),
          .steps = iterator.stats()};
}

Json json_of(const InputRun& run) {
  Json json;
  json["recipe"] = run.pipeline;
  json["batches"] = run.batches;
  json["seconds"] = run.seconds;
  json["examples_per_second"] = run.examples_per_second;
  json["position_bytes"] = run.position_bytes;
  json["bottleneck"] = data::bottleneck(run.steps);
  json["steps"] = Json::array();
  for (const data::StageStats& step : run.steps) json["steps"].push_back(json_of(step));
  return json;
}

std::string text_of(const InputRun& run) {
  return base::str_cat(base::printable(run.pipeline), "\n", fixed(run.examples_per_second, 0),
                       " examples/s, a position of ", run.position_bytes, " bytes\n",
                       data::describe(run.steps));
}

const InputSweep::Fixed& InputSweep::best() const {
  return *std::max_element(fixed.begin(), fixed.end(), [](const Fixed& a, const Fixed& b) {
    return a.examples_per_second < b.examples_per_second;
  });
}

/// Calls `run(map threads, prefetched batches)`, which makes and measures an input, with
/// autotuning and with numbers of threads around that of the cores.
InputSweep sweep(const std::function<InputRun(std::int64_t, std::int64_t)>& run) {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  InputSweep sweep{.autotuned = run(data::kAutotune, data::kAutotune)};
  for (std::int64_t threads = 1; threads <= 2 * cores; threads *= 2) {
    for (const std::int64_t prefetch : {1, 4}) {
      const InputRun fixed = run(threads, prefetch);
      sweep.fixed.push_back({threads, prefetch, fixed.examples_per_second});
    }
  }
  return sweep;
}

Json json_of(const InputSweep& sweep) {
  Json json;
  json["autotuned"] = json_of(sweep.autotuned);
  json["fixed"] = Json::array();
  for (const InputSweep::Fixed& each : sweep.fixed) {
    Json entry;
    entry["map_threads"] = each.map_threads;
    entry["prefetch"] = each.prefetch;
    entry["examples_per_second"] = each.examples_per_second;
    json["fixed"].push_back(std::move(entry));
  }
  json["autotuned_to_best"] =
      sweep.autotuned.examples_per_second / sweep.best().examples_per_second;
  return json;
}

std::string text_of(const InputSweep& sweep) {
  std::string text =
      base::str_cat(sweep.autotuned.pipeline, "\nmap threads  prefetch  examples/s\n");
  for (const InputSweep::Fixed& each : sweep.fixed) {
    const std::string threads = base::str_cat(each.map_threads);
    const std::string prefetch = base::str_cat(each.prefetch);
    text += base::str_cat(std::string(11 - threads.size(), ' '), threads,
                          std::string(10 - prefetch.size(), ' '), prefetch, "  ",
                          fixed(each.examples_per_second, 0), "\n");
  }
  const double fraction = sweep.autotuned.examples_per_second / sweep.best().examples_per_second;
  return base::str_cat(
      text, "   autotuned            ", fixed(sweep.autotuned.examples_per_second, 0), ", ",
      fixed(100 * fraction, 0), " % of the best\n", data::describe(sweep.autotuned.steps));
}

class DataCommand final : public Command {
 public:
  explicit DataCommand(CLI::App& parent)
      : Command(parent, "data", "Measure a training's input pipeline") {
    parser_.require_subcommand(1);
    CLI::App& stats =
        *parser_.add_subcommand("stats", "Measure each step of the input, without the training");
    data_.add_to(stats);
    FlagGroup(stats, "Data").add("--model", model_, "The model that the images are for");
    pipeline_.add_to(stats);
    batch_.add_to(stats);
    FlagGroup steps(stats, "Steps");
    steps.add("--seconds", length_.seconds,
              "Seconds to measure, after a warm-up as long, at most 1");
    steps.add("--steps", length_.batches, "Batches to measure, instead of seconds");
    steps.add("--step-ms", length_.step_ms,
              "Milliseconds to sleep between two batches, as a training step on a device takes");
    FlagGroup(stats, "Output")
        .add_switch("--sweep", sweep_, "Compare autotuning with fixed numbers of threads");
    output_.add_to(stats);
    stats.footer(kDataExamples);
  }

  int run() override {
    check_flags();
    const ImageInput image = set_up([&] { return data_.image_input(model_); });
    set_up([&] { pipeline_.load(data_, image); });
    const auto run_with = [&](std::int64_t map_threads, std::int64_t depth) {
      PipelineFlags flags = pipeline_;
      flags.map_threads = map_threads == data::kAutotune ? "auto" : base::str_cat(map_threads);
      return run_input(
          flags.load(data_, image).repeat().batch(batch_.global_size(1)).prefetch(depth), length_);
    };
    if (sweep_) {
      const InputSweep found = sweep(run_with);
      output_.print(json_of(found), text_of(found));
    } else {
      const InputRun found = run_with(pipeline_.map_parallelism(), data::kAutotune);
      output_.print(json_of(found), text_of(found));
    }
    return kDone;
  }

 private:
  void check_flags() const {
    check_choice("model", model_, models::model_names());
    data_.check();
    pipeline_.check(data_);
    batch_.check();
    if (!(length_.seconds >= kFewestSeconds && length_.seconds <= 1e6)) {
      throw UsageError("--seconds is ", length_.seconds, "; it must be ", kFewestSeconds,
                       " to 1000000");
    }
    if (length_.batches) check_at_least("--steps", *length_.batches, 1);
    if (!(length_.step_ms >= 0 && length_.step_ms <= 1e6)) {
      throw UsageError("--step-ms is ", length_.step_ms, "; it must be 0 to 1000000");
    }
  }

  std::string model_ = "mnist_cnn";
  DataFlags data_;
  PipelineFlags pipeline_;
  BatchFlags batch_;
  InputLength length_;
  bool sweep_ = false;
  OutputFlag output_;
};

}  // namespace

std::unique_ptr<Command> make_data_command(CLI::App& parent) {
  return std::make_unique<DataCommand>(parent);
}

}  // namespace brigade::command
