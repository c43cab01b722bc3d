#include "apps/brigade/input_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/state_json.h"

namespace brigade::command {
namespace {

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
  Json json;
  json["name"] = step.name;
  json["elements"] = step.elements;
  json["elements_per_second"] = step.elements_per_second;
  json["threads"] = step.threads;
  json["capacity"] = step.capacity;
  json["queue_depth"] = step.queue_depth;
  json["busy"] = step.busy;
  json["without_core"] = step.delayed;
  json["stall"] = step.stall;
  json["starved"] = step.starved;
  return json;
}

}  // namespace

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

const InputSweep::Fixed& InputSweep::best() const {
  return *std::max_element(fixed.begin(), fixed.end(), [](const Fixed& a, const Fixed& b) {
    return a.examples_per_second < b.examples_per_second;
  });
}

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

}  // namespace brigade::command
