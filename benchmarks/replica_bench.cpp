// Our training loop under a strategy. Prints one JSON line.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <CLI/CLI.hpp>

#include "benchmarks/measure.h"
#include "benchmarks/report.h"
#include "benchmarks/strategy_loop.h"
#include "benchmarks/workload.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  std::string model = "mnist_cnn";
  std::string strategy = "mirrored";
  std::string transport = "auto";
  std::int64_t bytes_per_pack = 0;  // negative: tuned
  std::int64_t batch = 0;
  int steps = 0;
  double seconds = 6;
  double warm_up_seconds = 2;
  Run run{.name = "brigade", .replicas = 2};
};

template <class Loop>
void time(Loop&& loop, Options& options) {
  if (options.steps > 0) {
    options.run.steps_per_block = options.steps;
    options.seconds = 0;
  }
  options.run.memory_by_device = loop.memory_by_device();
  report(options.run,
         time_blocks(loop, options.run.steps_per_block, options.warm_up_seconds, options.seconds));
}

/// One process of a job: all run the same blocks, and the chief reports.
void time_worker(StrategyLoop loop, Options& options) {
  const distribute::Strategy& strategy = loop.strategy();
  const auto as_the_chief = [&](bool go_on) {
    return strategy.broadcast_from_chief(go_on ? 1 : 0) != 0;
  };
  const std::vector<double> blocks = time_blocks(
      loop, options.run.steps_per_block, options.warm_up_seconds, options.seconds, as_the_chief);
  const at::Tensor peaks = strategy.gather_workers(at::full({1}, peak_rss_mib(), at::kDouble));
  if (!strategy.is_chief()) return;
  options.run.replicas = strategy.num_replicas_in_sync();
  options.run.other_peak_rss_mib = peaks.sum().item<double>() - peak_rss_mib();
  options.run.memory_by_device = loop.memory_by_device();
  report(options.run, blocks);
}

comm::CommunicationOptions communication_of(const Options& options) {
  comm::CommunicationOptions communication{.transport = comm::parse_transport(options.transport)};
  communication.bytes_per_pack = options.bytes_per_pack;
  if (options.bytes_per_pack < 0) communication.bytes_per_pack = std::nullopt;
  return communication;
}

void measure(Options options) {
  at::set_num_threads(1);
  const auto workload = parse_workload(options.model);
  options.run.batch_size = options.batch > 0 ? options.batch : default_batch(workload);
  if (options.strategy == "towers") {
    time(TowerLoop(options.run.replicas, options.run.batch_size), options);
  } else if (options.strategy == "multi_worker_mirrored") {
    time_worker(StrategyLoop(workload, make_worker_strategy(communication_of(options)),
                             options.run.batch_size),
                options);
  } else {
    time(StrategyLoop(workload, options.strategy, options.run.replicas, options.run.batch_size),
         options);
  }
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("Brigade's training loop on synthetic batches, one thread a replica");
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64", "mlp256"}));
  app.add_option("--strategy", options.strategy)
      ->check(CLI::IsMember({"one_device", "mirrored", "central_storage", "central_storage_copies",
                             "towers", "multi_worker_mirrored"}));
  app.add_option("--transport", options.transport,
                 "multi_worker_mirrored: auto, shared_memory, gloo (tcp)");
  app.add_option("--bytes-per-pack", options.bytes_per_pack,
                 "multi_worker_mirrored: gradients are sent in buckets of so many bytes during "
                 "backward; 0: all together after it; -1: tuned in the first steps");
  app.add_option("--replicas", options.run.replicas)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch,
                 "examples a replica and step (default: 128, mlp64: 32, mlp256: 64)");
  app.add_option("--steps", options.steps,
                 "time three blocks of this many steps instead of --seconds");
  app.add_option("--seconds", options.seconds);
  app.add_option("--warm-up-seconds", options.warm_up_seconds);
  app.add_option("--steps-per-block", options.run.steps_per_block)->check(CLI::PositiveNumber);
  app.add_option("--name", options.run.name);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("replica_bench",
                                            [&] { brigade::benchmarks::measure(options); });
}
