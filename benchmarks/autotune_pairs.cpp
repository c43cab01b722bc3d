// The cost of kAutotune over the best settings by hand: a sweep finds these, then blocks of both
// alternate within one process. Prints one JSON line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/dataset.h"
#include "brigade/data/sources/counter.h"

namespace brigade::benchmarks {
namespace {

/// The settings that a user would choose, or `data::kAutotune` for each of them.
struct InputSettings {
  std::int64_t map_threads = data::kAutotune;
  std::int64_t second_map_threads = data::kAutotune;
  std::int64_t prefetch = data::kAutotune;
};

/// An infinite pipeline with several tunable steps.
struct TunedPipeline {
  using Batch = std::vector<std::uint64_t>;

  std::string name;
  std::string description;
  std::function<data::Dataset<Batch>(const InputSettings&)> make;
  /// Batches that take some ten milliseconds.
  int batches_a_step = 1;
  /// Settings by hand that may be best on this machine.
  std::vector<InputSettings> by_hand{};
};

using Numbers = data::Dataset<std::uint64_t>;

constexpr std::int64_t kBatch = 32;

/// Work that no compiler shortens: about a nanosecond a round.
std::uint64_t worked(std::uint64_t value, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    value ^= value << 13;
    value ^= value >> 7;
    value ^= value << 17;
  }
  return value;
}

Numbers numbers() {
  return data::counter(1).map([](std::int64_t n) { return static_cast<std::uint64_t>(n); });
}

data::Dataset<TunedPipeline::Batch> batched(const Numbers& numbers, const InputSettings& settings) {
  return numbers.batch(kBatch).prefetch(settings.prefetch);
}

data::Dataset<TunedPipeline::Batch> working(int rounds, const InputSettings& settings) {
  const auto work = [rounds](std::uint64_t n) { return worked(n, rounds); };
  return batched(numbers().map(work, {.parallelism = settings.map_threads}), settings);
}

data::Dataset<TunedPipeline::Batch> heavy(const InputSettings& settings) {
  return working(200'000, settings);
}

data::Dataset<TunedPipeline::Batch> cheap(const InputSettings& settings) {
  return working(200, settings);
}

data::Dataset<TunedPipeline::Batch> uneven(const InputSettings& settings) {
  const auto work = [](std::uint64_t n) { return worked(n, n % 16 == 0 ? 1'600'000 : 16'000); };
  return batched(numbers().map(work, {.parallelism = settings.map_threads}), settings);
}

data::Dataset<TunedPipeline::Batch> two_maps(const InputSettings& settings) {
  const auto read = [](std::uint64_t n) { return worked(n, 40'000); };
  const auto decode = [](std::uint64_t n) { return worked(n, 160'000); };
  return batched(numbers()
                     .map(read, {.parallelism = settings.map_threads, .name = "read"})
                     .map(decode, {.parallelism = settings.second_map_threads, .name = "decode"}),
                 settings);
}

/// Remote files: opening one takes a millisecond, without computation.
data::Dataset<TunedPipeline::Batch> reads(const InputSettings& settings) {
  const auto read = [](std::uint64_t n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return worked(n, 20'000);
  };
  return batched(numbers().map(read, {.parallelism = settings.map_threads}), settings);
}

/// Numbers around that of the cores.
std::vector<InputSettings> around_cores(std::int64_t most_threads) {
  std::vector<InputSettings> settings;
  for (std::int64_t threads = 1; threads <= most_threads; threads *= 2) {
    for (const std::int64_t prefetch : {1, 4}) settings.push_back({threads, threads, prefetch});
  }
  return settings;
}

std::vector<InputSettings> each_for_two() {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  std::vector<InputSettings> settings;
  for (std::int64_t first = 1; first <= cores; first *= 2) {
    for (std::int64_t second = 1; second <= 2 * cores; second *= 2) {
      settings.push_back({first, second, 2});
    }
  }
  return settings;
}

std::string number_text(std::int64_t number) {
  return number == data::kAutotune ? "auto" : base::str_cat(number);
}

/// heavy, cheap, uneven, two_maps and reads.
std::vector<TunedPipeline> tuned_pipelines() {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  const auto few = around_cores(2 * cores);
  return {{"heavy", "a map of 0.2 ms an element", heavy, 4, few},
          {"cheap", "a map of 0.2 us an element", cheap, 1000, few},
          {"uneven", "a map of 16 us, of every 16th element 1.6 ms", uneven, 4, few},
          {"two_maps", "a map of 40 us and one of 160 us", two_maps, 4, each_for_two()},
          {"reads", "a map that waits 1 ms", reads, 4, around_cores(16 * cores)}};
}

/// "2 threads, prefetch 4"; what is not set by hand is "auto".
std::string to_string(const InputSettings& settings) {
  return base::str_cat("map threads ", number_text(settings.map_threads), " and ",
                       number_text(settings.second_map_threads), ", prefetch ",
                       number_text(settings.prefetch));
}

constexpr double kSecondsToTune = 3;
constexpr double kSecondsToSettle = 1;
constexpr int kSweeps = 3;

/// An iterator of which blocks are timed. While another one runs, its threads fill its buffers. So
/// before each block, elements are taken until its own buffers are used up and the other's full.
class TimedIterator {
 public:
  TimedIterator(const TunedPipeline& pipeline, const InputSettings& settings)
      : iterator_(pipeline.make(settings).iterator()), batches_a_step_(pipeline.batches_a_step) {}

  void run(int steps) {
    for (int i = 0; i < steps * batches_a_step_; ++i) iterator_.next().value();
  }
  void run_for(double seconds) {
    for (const double end = wall_seconds() + seconds; wall_seconds() < end;) run(1);
  }
  Cost settled_cost(int steps) {
    run_for(kSecondsToSettle);
    return cost_of_block(*this, steps);
  }

 private:
  data::Iterator<TunedPipeline::Batch> iterator_;
  const int batches_a_step_;
};

/// The fastest settings, by the median of some blocks. Blocks of different settings alternate, so
/// that drift favors none.
InputSettings best_by_hand(const TunedPipeline& pipeline, int steps) {
  std::vector<std::vector<double>> seconds(pipeline.by_hand.size());
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      TimedIterator iterator(pipeline, pipeline.by_hand[i]);
      seconds[i].push_back(iterator.settled_cost(steps).wall_seconds);
    }
  }
  const auto median_of = [](const std::vector<double>& each) { return estimate(each).median; };
  const auto best = std::ranges::min_element(seconds, {}, median_of);
  return pipeline.by_hand[static_cast<std::size_t>(best - seconds.begin())];
}

struct Compared {
  Ratios ratios{};
  std::vector<double> tuned_seconds{}, by_hand_seconds{};
};

Compared compare(TimedIterator& tuned, TimedIterator& by_hand, const PairOptions& options) {
  Compared compared;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const CostOfPair cost = cost_of_pair(
        pair, [&] { return tuned.settled_cost(options.steps); },
        [&] { return by_hand.settled_cost(options.steps); });
    compared.ratios.add(cost);
    compared.tuned_seconds.push_back(cost.subject.wall_seconds);
    compared.by_hand_seconds.push_back(cost.base.wall_seconds);
  }
  return compared;
}

void measure(const TunedPipeline& pipeline, const PairOptions& options) {
  const InputSettings best = best_by_hand(pipeline, options.steps);
  TimedIterator tuned(pipeline, {}), by_hand(pipeline, best);
  tuned.run_for(kSecondsToTune);
  const Compared compared = compare(tuned, by_hand, options);
  std::cout << "{\"pipeline\": \"" << pipeline.name << "\", \"best\": \"" << to_string(best)
            << "\", \"tuned_milliseconds\": " << 1e3 * estimate(compared.tuned_seconds).median
            << ", \"by_hand_milliseconds\": " << 1e3 * estimate(compared.by_hand_seconds).median
            << ", \"pairs\": " << options.pairs << ratio_fields(compared.ratios) << "}"
            << std::endl;
}

std::string names() {
  std::string text;
  for (const TunedPipeline& each : tuned_pipelines()) {
    text += "\n" + each.name + ": " + each.description;
  }
  return text;
}

TunedPipeline named(const std::string& name) {
  for (const TunedPipeline& each : tuned_pipelines()) {
    if (each.name == name) return each;
  }
  throw std::invalid_argument("there is no pipeline '" + name + "'; there are:" + names());
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  using namespace brigade::benchmarks;
  std::string pipeline = "heavy";
  PairOptions options{.pairs = 12, .steps = 10};
  CLI::App app("The time of kAutotune over that of the best numbers set by hand");
  app.add_option("--pipeline", pipeline, "one of" + names());
  app.add_option("--pairs", options.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "tens of milliseconds a block")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("autotune_pairs",
                                            [&] { measure(named(pipeline), options); });
}
