// Small differences, in pairs: blocks of steps of two loops in turns within one process, and the
// median of the ratios with its interval, of wall time and of CPU time. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "benchmarks/bare_loop.h"
#include "benchmarks/bare_models.h"
#include "benchmarks/measure.h"
#include "benchmarks/stats.h"
#include "benchmarks/strategy_loop.h"
#include "benchmarks/tower_loop.h"
#include "benchmarks/workload.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  std::string comparison = "one_device";
  std::string model = "mnist_cnn";
  std::int64_t batch = 0;
  int pairs = 30;
  int steps = 20;
};

struct Ratios {
  std::vector<double> wall;
  std::vector<double> cpu;
};

/// Adds `pairs` ratios of the subject's cost over the base's. Every other pair starts with the
/// subject, so that drift favours neither.
template <class Subject, class Base>
void compare_built(Subject& subject, Base& base, int pairs, int steps, Ratios& ratios) {
  for (int i = 0; i < 2; ++i) {  // warm both up: caches, thread pools, chosen kernels
    subject.run(steps);
    base.run(steps);
  }
  for (int pair = 0; pair < pairs; ++pair) {
    Cost over, under;
    if (pair % 2 == 0) {
      under = cost_of_block(base, steps);
      over = cost_of_block(subject, steps);
    } else {
      over = cost_of_block(subject, steps);
      under = cost_of_block(base, steps);
    }
    ratios.wall.push_back(over.wall_seconds / under.wall_seconds);
    ratios.cpu.push_back(over.cpu_seconds / under.cpu_seconds);
  }
}

/// Ratios over several builds of both loops, each built first in turns: where a loop's memory
/// happens to lie is worth a few per cent and would otherwise count as a difference.
template <class MakeSubject, class MakeBase>
Ratios compare(const MakeSubject& make_subject, const MakeBase& make_base, const Options& options) {
  constexpr int kPairsABuild = 5;
  Ratios ratios;
  for (int done = 0; done < options.pairs; done += kPairsABuild) {
    const int pairs = std::min(kPairsABuild, options.pairs - done);
    if (done / kPairsABuild % 2 == 0) {
      auto subject = make_subject();
      auto base = make_base();
      compare_built(*subject, *base, pairs, options.steps, ratios);
    } else {
      auto base = make_base();
      auto subject = make_subject();
      compare_built(*subject, *base, pairs, options.steps, ratios);
    }
  }
  return ratios;
}

void print(const Options& options, const Ratios& ratios) {
  const auto wall = estimate(ratios.wall), cpu = estimate(ratios.cpu);
  std::cout << "{\"comparison\": \"" << options.comparison << "\", \"model\": \"" << options.model
            << "\", \"pairs\": " << options.pairs << ", \"steps_per_block\": " << options.steps
            << ", \"median\": " << wall.median << ", \"low\": " << wall.low
            << ", \"high\": " << wall.high << ", \"cpu_median\": " << cpu.median
            << ", \"cpu_low\": " << cpu.low << ", \"cpu_high\": " << cpu.high << "}" << std::endl;
}

void measure(const Options& options) {
  at::set_num_threads(1);
  const auto workload = parse_workload(options.model);
  const auto batch_size = options.batch > 0 ? options.batch : default_batch(workload);
  const auto bare = [&] {
    return std::make_unique<BareLoop>(make_bare_loop(workload, batch_size));
  };
  const auto one = [&] {
    return std::make_unique<StrategyLoop>(workload, "one_device", 1, batch_size);
  };
  const auto two = [&] {
    return std::make_unique<StrategyLoop>(workload, "mirrored", 2, batch_size);
  };
  const auto central = [&] {
    return std::make_unique<StrategyLoop>(workload, "central_storage", 2, batch_size);
  };
  const auto measured = [&] {
    auto loop = two();
    loop->measure_steps();
    return loop;
  };
  const auto towers = [&] { return std::make_unique<TowerLoop>(2, batch_size); };
  if (options.comparison == "central_storage") print(options, compare(central, two, options));
  if (options.comparison == "measured") print(options, compare(measured, two, options));
  if (options.comparison == "towers") print(options, compare(towers, two, options));
  if (options.comparison == "one_device") print(options, compare(one, bare, options));
  if (options.comparison == "two_replicas") print(options, compare(two, one, options));
  if (options.comparison == "same") print(options, compare(bare, bare, options));
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("Compares two training loops within one process, blocks in turns");
  app.add_option(
         "--comparison", options.comparison,
         "one_device: OneDeviceStrategy over a bare loop; two_replicas: a step of two over "
         "a step of one; measured: a step of two replicas whose shares are measured over one "
         "without; central_storage, towers: a step of two replicas over Mirrored's; "
         "same: the bare loop over itself, to see what the method cannot tell apart")
      ->check(CLI::IsMember(
          {"one_device", "two_replicas", "measured", "central_storage", "towers", "same"}));
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64"}));
  app.add_option("--batch", options.batch, "examples a replica and step (default: 128, mlp64: 32)");
  app.add_option("--pairs", options.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    brigade::benchmarks::measure(options);
  } catch (const std::exception& error) {
    std::cerr << "overhead_pairs: " << error.what() << "\n";
    return 1;
  }
}
