// The cost of kAutotune over the best settings by hand: a sweep finds these, then blocks of both
// alternate within one process. Prints one JSON line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/stats.h"
#include "benchmarks/tuned_pipelines.h"
#include "brigade/data/core/iterator.h"

namespace brigade::benchmarks {
namespace {

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
    Cost over, under;
    if (pair % 2 == 0) {
      under = by_hand.settled_cost(options.steps);
      over = tuned.settled_cost(options.steps);
    } else {
      over = tuned.settled_cost(options.steps);
      under = by_hand.settled_cost(options.steps);
    }
    compared.ratios.wall.push_back(over.wall_seconds / under.wall_seconds);
    compared.ratios.cpu.push_back(over.cpu_seconds / under.cpu_seconds);
    compared.tuned_seconds.push_back(over.wall_seconds);
    compared.by_hand_seconds.push_back(under.wall_seconds);
  }
  return compared;
}

void measure(const TunedPipeline& pipeline, const PairOptions& options) {
  const InputSettings best = best_by_hand(pipeline, options.steps);
  TimedIterator tuned(pipeline, {}), by_hand(pipeline, best);
  tuned.run_for(kSecondsToTune);
  const Compared compared = compare(tuned, by_hand, options);
  const auto wall = estimate(compared.ratios.wall), cpu = estimate(compared.ratios.cpu);
  std::cout << "{\"pipeline\": \"" << pipeline.name << "\", \"best\": \"" << to_string(best)
            << "\", \"tuned_milliseconds\": " << 1e3 * estimate(compared.tuned_seconds).median
            << ", \"by_hand_milliseconds\": " << 1e3 * estimate(compared.by_hand_seconds).median
            << ", \"pairs\": " << options.pairs << ", \"median\": " << wall.median
            << ", \"low\": " << wall.low << ", \"high\": " << wall.high
            << ", \"cpu_median\": " << cpu.median << ", \"cpu_low\": " << cpu.low
            << ", \"cpu_high\": " << cpu.high << "}" << std::endl;
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
  try {
    measure(named(pipeline), options);
  } catch (const std::exception& error) {
    std::cerr << "autotune_pairs: " << error.what() << "\n";
    return 1;
  }
}
