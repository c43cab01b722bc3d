// One replica on libtorch without Brigade's strategies, with the same allocator and math-library
// tuning: what our one replica is measured against. Prints one JSON line.
#include <ATen/Context.h>
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
  std::string device = "cpu";
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

c10::Device parse_device(const std::string& name) {
  return name == "cpu" ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
}

/// What `--numerics fast` sets.
void use_fast_numerics() {
  at::globalContext().setBenchmarkCuDNN(true);
  at::globalContext().setAllowTF32CuDNN(true);
  at::globalContext().setAllowTF32CuBLAS(true);
}

BareLoop make_loop(const Options& options, Workload workload, std::int64_t batch_size) {
  const c10::Device device = parse_device(options.device);
  if (workload == Workload::kResNet50) {
    return make_bare_loop(workload, std::make_shared<PlainResNet50>(), batch_size, device);
  }
  if (options.layers == "libtorch" && workload == Workload::kMnistCnn) {
    return make_bare_loop(workload, std::make_shared<PlainMnistCnn>(), batch_size, device);
  }
  return make_bare_loop(workload, batch_size, device);
}

void measure(Options options) {
  at::set_num_threads(1);
  if (options.device != "cpu") use_fast_numerics();
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
  app.add_option("--model", options.model)
      ->check(CLI::IsMember({"mnist_cnn", "mlp64", "resnet50"}));
  app.add_option("--device", options.device, "gpu:0: as with --numerics fast")
      ->check(CLI::IsMember({"cpu", "gpu:0"}));
  app.add_option("--layers", options.layers, "libtorch: its own layers; brigade: brigade::models")
      ->check(CLI::IsMember({"libtorch", "brigade"}));
  app.add_option("--copies", options.run.replicas,
                 "independent parallel loops: what the machine allows")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch,
                 "examples a step (default: 128, mlp64: 32, resnet50: 256)");
  app.add_option("--seconds", options.seconds);
  app.add_option("--warm-up-seconds", options.warm_up_seconds);
  app.add_option("--steps-per-block", options.run.steps_per_block)->check(CLI::PositiveNumber);
  app.add_option("--name", options.run.name);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("bare_libtorch",
                                            [&] { brigade::benchmarks::measure(options); });
}
