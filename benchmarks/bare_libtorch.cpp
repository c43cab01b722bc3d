// One replica on libtorch without Brigade's strategies, with the same allocator and math-library
// tuning: what our one replica is measured against. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/bare_loop.h"
#include "benchmarks/bare_models.h"
#include "benchmarks/measure.h"
#include "benchmarks/report.h"
#include "benchmarks/workload.h"

namespace brigade::benchmarks {
namespace {

struct Options {
  std::string model = "mnist_cnn";
  std::string layers = "libtorch";
  std::int64_t batch = 0;
  double seconds = 6;
  double warm_up_seconds = 2;
  Run run{.name = "bare_libtorch"};
};

/// Independent loops at the same time, one thread each: they share only the machine.
class SideBySide {
 public:
  explicit SideBySide(std::vector<BareLoop> loops) : loops_(std::move(loops)) {}

  void run(int steps) {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < loops_.size(); ++i) {
      others.emplace_back([this, i, steps] {
        at::set_num_threads(1);
        loops_[i].run(steps);
      });
    }
    loops_.front().run(steps);
  }

 private:
  std::vector<BareLoop> loops_;
};

BareLoop make_loop(const Options& options, Workload workload, std::int64_t batch_size) {
  if (options.layers == "libtorch" && workload == Workload::kMnistCnn) {
    return make_bare_loop(workload, std::make_shared<PlainMnistCnn>(), batch_size);
  }
  return make_bare_loop(workload, batch_size);
}

void measure(Options options) {
  at::set_num_threads(1);
  const auto workload = parse_workload(options.model);
  options.run.batch_size = options.batch > 0 ? options.batch : default_batch(workload);
  std::vector<BareLoop> loops;
  for (int i = 0; i < options.run.replicas; ++i) {
    loops.push_back(make_loop(options, workload, options.run.batch_size));
  }
  SideBySide loop(std::move(loops));
  report(options.run,
         time_blocks(loop, options.run.steps_per_block, options.warm_up_seconds, options.seconds));
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("A bare training loop on libtorch, one replica, one thread");
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64"}));
  app.add_option("--layers", options.layers, "libtorch: its own layers; brigade: brigade::models")
      ->check(CLI::IsMember({"libtorch", "brigade"}));
  app.add_option("--copies", options.run.replicas,
                 "independent parallel loops: what the machine allows")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "examples a step (default: 128, mlp64: 32)");
  app.add_option("--seconds", options.seconds);
  app.add_option("--warm-up-seconds", options.warm_up_seconds);
  app.add_option("--steps-per-block", options.run.steps_per_block)->check(CLI::PositiveNumber);
  app.add_option("--name", options.run.name);
  CLI11_PARSE(app, argc, argv);
  brigade::benchmarks::measure(options);
}
