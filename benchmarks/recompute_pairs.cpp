// What recomputing activations costs and saves: steps of a deep Sequential that recomputes groups
// of layers against the same one that keeps all activations, in pairs of blocks of steps, or the
// memory that a step takes beyond the variables. Prints one JSON line.
#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/pairs.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/layers/losses.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {
namespace {

constexpr int kLayers = 32;

/// Convolutions with relu whose activations are equally large, and a classifier.
models::Sequential deep_net() {
  std::vector<models::Layer> layers;
  for (int layer = 0; layer < kLayers; ++layer) {
    layers.emplace_back(models::Conv2D{
        .filters = 16, .kernel_size = 3, .padding = layers::Padding::kSame, .activation = "relu"});
  }
  layers.emplace_back(models::Flatten{});
  layers.emplace_back(models::Dense{.units = 10});
  return models::Sequential(std::move(layers));
}

class LiveBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live_ += size;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live() const { return live_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t live_ = 0, peak_ = 0;
};

/// What a step allocates beyond what is there before it.
struct StepBytes {
  std::int64_t after_forward = 0;  ///< kept for backward: the activations
  std::int64_t peak = 0;           ///< with the gradients that backward has at a time
};

class Loop {
 public:
  explicit Loop(int every)
      : model_(strategy_.create(deep_net().recompute_every(every), images_)),
        sgd_(strategy_.optimizer(model_, optim::Sgd{.learning_rate = 0.01})) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) run_step([] {});
  }
  StepBytes bytes_of_step() {
    run(1);  // what the first step alone allocates
    const auto bytes = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    StepBytes found;
    run_step([&] { found.after_forward = bytes->live(); });
    found.peak = bytes->peak();
    return found;
  }

 private:
  template <class AfterForward>
  void run_step(const AfterForward& after_forward) {
    strategy_.run([&](distribute::ReplicaContext&) {
      const auto loss = layers::losses::sparse_softmax_cross_entropy(model_(images_), labels_);
      after_forward();
      sgd_.minimize(loss, distribute::LossScale::kAlreadyScaled);
    });
  }

  distribute::OneDeviceStrategy strategy_;
  const at::Tensor images_ = at::rand({32, 3, 32, 32});
  const at::Tensor labels_ = at::randint(0, 10, {32}, at::kLong);
  decltype(strategy_.create(deep_net(), images_)) model_;
  distribute::Optimizer sgd_;
};

struct Options {
  std::string measure = "step";
  int every = 6;
  PairOptions pairs = {.pairs = 20, .steps = 2};
};

/// The activations' memory over that of the network that keeps all, and the same of all that a step
/// allocates. What backward takes beyond the activations is the same in both.
void report_memory(const StepBytes& kept, const StepBytes& recomputed) {
  const auto activations = static_cast<double>(kept.after_forward);
  const double saved = static_cast<double>(kept.peak - recomputed.peak);
  const double ratio = 1.0 - saved / activations;
  const double of_step = 1.0 - saved / static_cast<double>(kept.peak);
  std::cout << "{\"pairs\": 1, \"activation_bytes_kept\": " << kept.after_forward
            << ", \"peak_bytes_kept\": " << kept.peak << ", \"peak_bytes\": " << recomputed.peak
            << ", \"of_peak\": " << of_step << ", \"median\": " << ratio << ", \"low\": " << ratio
            << ", \"high\": " << ratio << "}" << std::endl;
}

void measure(const Options& options) {
  at::set_num_threads(1);
  if (options.measure == "memory") {
    report_memory(Loop(0).bytes_of_step(), Loop(options.every).bytes_of_step());
    return;
  }
  const Ratios ratios = compare([&] { return std::make_unique<Loop>(options.every); },
                                [] { return std::make_unique<Loop>(0); }, options.pairs);
  std::cout << "{\"pairs\": " << ratios.wall.size() << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("A deep network that recomputes its activations over one that keeps them");
  app.add_option("--measure", options.measure)->check(CLI::IsMember({"step", "memory"}));
  app.add_option("--every", options.every, "layers whose activations are recomputed together")
      ->check(CLI::PositiveNumber);
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("recompute_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
