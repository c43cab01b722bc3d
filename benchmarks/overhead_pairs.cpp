// Small differences, in pairs: alternating blocks of steps of two loops within one process, and the
// median of the ratios with its interval, of wall time and of CPU time. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "benchmarks/bare_loop.h"
#include "benchmarks/bare_models.h"
#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/strategy_loop.h"
#include "benchmarks/workload.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  std::string comparison = "one_device";
  std::string model = "mnist_cnn";
  std::int64_t batch = 0;
  PairOptions pairs;
};

void print(const Options& options, const Ratios& ratios) {
  std::cout << "{\"comparison\": \"" << options.comparison << "\", \"model\": \"" << options.model
            << "\", \"pairs\": " << options.pairs.pairs
            << ", \"steps_per_block\": " << options.pairs.steps << ratio_fields(ratios) << "}"
            << std::endl;
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
  if (options.comparison == "central_storage") print(options, compare(central, two, options.pairs));
  if (options.comparison == "measured") print(options, compare(measured, two, options.pairs));
  if (options.comparison == "towers") print(options, compare(towers, two, options.pairs));
  if (options.comparison == "one_device") print(options, compare(one, bare, options.pairs));
  if (options.comparison == "two_replicas") print(options, compare(two, one, options.pairs));
  if (options.comparison == "same") print(options, compare(bare, bare, options.pairs));
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("Compares two training loops within one process, in alternating blocks");
  app.add_option("--comparison", options.comparison,
                 "one_device: OneDeviceStrategy over a bare loop; two_replicas: a step of two over "
                 "a step of one; measured: a step of two replicas with the step breakdown measured "
                 "over one "
                 "without; central_storage, towers: a step of two replicas over Mirrored's; "
                 "same: the bare loop over itself, to see what the method cannot tell apart")
      ->check(CLI::IsMember(
          {"one_device", "two_replicas", "measured", "central_storage", "towers", "same"}));
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64"}));
  app.add_option("--batch", options.batch, "examples a replica and step (default: 128, mlp64: 32)");
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("overhead_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
