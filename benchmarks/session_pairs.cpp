// What a session adds to a step, in pairs: alternating blocks of steps with and without it in one
// process. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "benchmarks/measure.h"
#include "benchmarks/pairs.h"
#include "benchmarks/session_loop.h"
#include "benchmarks/workload.h"
#include "brigade/train/hooks/logging_hooks.h"
#include "brigade/train/hooks/stop_hooks.h"

namespace brigade::benchmarks {
namespace {

/// How often a training saves: the cost of a save is given as a fraction of this many steps.
constexpr int kStepsBetweenSaves = 100;

struct Options {
  std::string comparison = "checkpoints";
  std::string model = "mnist_cnn";
  int replicas = 1;
  std::int64_t batch = 0;
  PairOptions pairs{.pairs = 30, .steps = 10};
  std::string directory = ".";
};

LoopOptions loop_options_of(const Options& options) {
  const auto workload = parse_workload(options.model);
  return {.workload = workload,
          .replicas = options.replicas,
          .batch_size = options.batch > 0 ? options.batch : default_batch(workload),
          .directory = options.directory};
}

/// Blocks with one save each over blocks without.
Ratios compare_saving(const Options& options, std::vector<double>& save_seconds) {
  const auto loop_options = loop_options_of(options);
  const int every = options.pairs.steps;
  const auto saving = [&] {
    return std::make_unique<SavingLoop>(loop_options, every, save_seconds);
  };
  const auto not_saving = [&] {
    return std::make_unique<SessionLoop>(loop_options, [](const auto&) {
      return train::SessionOptions{
          .save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
    });
  };
  Ratios ratios = compare(saving, not_saving, options.pairs);
  const double fraction = static_cast<double>(every) / kStepsBetweenSaves;
  for (auto* each : {&ratios.wall, &ratios.cpu}) {
    for (double& ratio : *each) ratio = 1 + (ratio - 1) * fraction;
  }
  return ratios;
}

/// What a session has by default, with the hooks that most programs add; what is due by steps is
/// due once a block. Over the same steps without a session.
Ratios compare_hooks(const Options& options) {
  const auto loop_options = loop_options_of(options);
  const train::Every every{.steps = options.pairs.steps};
  const auto with_hooks = [&] {
    return std::make_unique<SessionLoop>(loop_options, [&](const auto& folder) {
      return train::SessionOptions{.checkpoint_dir = folder,
                                   .hooks = {train::StopAtStepHook{.last_step = 1'000'000'000},
                                             train::LoggingHook{.every = every}, train::NanHook{}},
                                   .save_summaries = every,
                                   .log_step_count = every};
    });
  };
  const auto bare = [&] {
    return std::make_unique<LossLoop>(loop_options.workload, loop_options.replicas,
                                      loop_options.batch_size);
  };
  return compare(with_hooks, bare, options.pairs);
}

void print(const Options& options, const Ratios& ratios, const std::vector<double>& save_seconds) {
  std::cout << "{\"comparison\": \"" << options.comparison << "\", \"model\": \"" << options.model
            << "\", \"replicas\": " << options.replicas << ", \"pairs\": " << options.pairs.pairs
            << ", \"steps_per_block\": " << options.pairs.steps << ratio_fields(ratios);
  if (!save_seconds.empty()) {
    const auto save = estimate(save_seconds);
    std::cout << ", \"save_milliseconds\": " << 1e3 * save.median;
  }
  std::cout << "}" << std::endl;
}

void measure(const Options& options) {
  at::set_num_threads(1);
  std::vector<double> save_seconds;
  const auto ratios = options.comparison == "hooks" ? compare_hooks(options)
                                                    : compare_saving(options, save_seconds);
  print(options, ratios, save_seconds);
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("What a session adds to a step: blocks with and without it within one process");
  app.add_option(
         "--comparison", options.comparison,
         "checkpoints: blocks with one save in the background each over blocks without; the excess "
         "is given as a fraction of 100 steps, whatever --steps is. hooks: a session with the "
         "default "
         "hooks, logging and the NaN guard, due once a block, over the same loop without a session")
      ->check(CLI::IsMember({"checkpoints", "hooks"}));
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64"}));
  app.add_option("--replicas", options.replicas)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "examples a replica and step (default: 128, mlp64: 32)");
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  app.add_option("--directory", options.directory, "where folders for checkpoints are made")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("session_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
