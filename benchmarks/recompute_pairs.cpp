// What recomputing activations costs and saves: steps of a deep Sequential that recomputes groups
// of layers against the same one that keeps all activations, in pairs of blocks of steps, and the
// peak of the tensors' memory in a step. One JSON object a line. Usage: recompute_pairs [pairs
// [steps]]
#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "benchmarks/pairs.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/layers/losses.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {
namespace {

constexpr int kBlocks = 16;

/// Convolution, batch norm, relu: 48 layers whose activations are equally large, and a classifier.
models::Sequential deep_net() {
  std::vector<models::Layer> layers;
  for (int block = 0; block < kBlocks; ++block) {
    layers.emplace_back(models::Conv2D{
        .filters = 16, .kernel_size = 3, .padding = layers::Padding::kSame, .use_bias = false});
    layers.emplace_back(models::BatchNormalization{});
    layers.emplace_back(models::ReLU{});
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
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t live_ = 0, peak_ = 0;
};

class Loop {
 public:
  explicit Loop(int every)
      : model_(strategy_.create(deep_net().recompute_every(every), images_)),
        sgd_(strategy_.optimizer(model_, optim::Sgd{.learning_rate = 0.01})) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      strategy_.run([&](distribute::ReplicaContext&) {
        sgd_.minimize(layers::losses::sparse_softmax_cross_entropy(model_(images_), labels_),
                      distribute::LossScale::kAlreadyScaled);
      });
    }
  }
  std::int64_t peak_bytes() {
    run(1);  // what the first step alone allocates
    const auto bytes = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    run(1);
    return bytes->peak();
  }

 private:
  distribute::OneDeviceStrategy strategy_;
  const at::Tensor images_ = at::rand({32, 3, 32, 32});
  const at::Tensor labels_ = at::randint(0, 10, {32}, at::kLong);
  decltype(strategy_.create(deep_net(), images_)) model_;
  distribute::Optimizer sgd_;
};

}  // namespace
}  // namespace brigade::benchmarks

int main(int count, char** arguments) {
  using namespace brigade::benchmarks;
  const PairOptions options{.pairs = count > 1 ? std::atoi(arguments[1]) : 10,
                            .steps = count > 2 ? std::atoi(arguments[2]) : 2};
  at::set_num_threads(1);
  const std::int64_t kept = Loop(0).peak_bytes();
  for (const int every : {3, 6, 12, 24}) {
    const std::int64_t recomputed = Loop(every).peak_bytes();
    const Ratios ratios = compare([&] { return std::make_unique<Loop>(every); },
                                  [] { return std::make_unique<Loop>(0); }, options);
    std::cout << "{\"recompute_every\": " << every << ", \"peak_bytes\": " << recomputed
              << ", \"peak_bytes_kept\": " << kept << ratio_fields(ratios) << "}" << std::endl;
  }
}
