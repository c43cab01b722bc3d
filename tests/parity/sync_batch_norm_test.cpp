// Law 1 for models with batch norm in training mode: with the statistics of the whole global batch,
// N replicas on any number of workers give what one replica gives on that batch.
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <map>
#include <mutex>

#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/layers/sync_batch_norm.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::Strategy;

// No biases where batch norm takes them out again: their gradient is rounding alone.
struct NormalisedNet : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor net = at::relu(norm1->forward(conv->forward(images)));
    net = at::max_pool2d(net, {6, 6}).flatten(1);
    return output->forward(at::relu(norm2->forward(hidden->forward(net))));
  }
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 5).bias(false)));
  layers::SyncBatchNorm norm1 =
      register_module("norm1", layers::SyncBatchNorm(torch::nn::BatchNormOptions(3)));
  torch::nn::Linear hidden =
      register_module("hidden", torch::nn::Linear(torch::nn::LinearOptions(48, 8).bias(false)));
  layers::SyncBatchNorm norm2 = register_module(
      "norm2", layers::SyncBatchNorm(torch::nn::BatchNormOptions(8).momentum(std::nullopt)));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(8, 10));
};

constexpr int kSteps = 9;

/// Batches of 4, 4 and 2: uneven, and with empty shares. Counters as numbers like the rest.
Weights trained(Strategy& strategy, const Cut& cut = {}) {
  const optim::Sgd rule{.learning_rate = 0.02, .momentum = 0.9};
  Weights weights = train_under<NormalisedNet>(strategy, kSteps, rule, cut);
  for (auto* values : {&weights.before, &weights.after}) {
    for (at::Tensor& value : *values) value = value.to(at::kDouble);
  }
  return weights;
}

Weights trained_by_one() {
  MirroredStrategy strategy(distribute::cpus(1));
  return trained(strategy);
}

TEST(SyncBatchNormLaw, OneToFourReplicasInFloat64) {
  const Weights one = trained_by_one();
  ASSERT_EQ(one.names.size(), 14u) << "parameters, running statistics and counts";
  for (int replicas = 2; replicas <= 4; ++replicas) {
    MirroredStrategy strategy(distribute::cpus(replicas));
    expect_same(trained(strategy), one, 1e-10, std::to_string(replicas) + " replicas");
  }
}

TEST(SyncBatchNormLaw, UnderCentralStorage) {
  const Weights one = trained_by_one();
  distribute::CentralStorageStrategy strategy(distribute::central_cpus(3));
  expect_same(trained(strategy), one, 1e-10, "3 replicas");
}

TEST(SyncBatchNormLaw, OnSeveralWorkers) {
  const Weights one = trained_by_one();
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 1}, {1, 1, 1}}) {
    std::mutex mutex;
    std::map<int, Weights> all;
    distribute::run_workers(layout, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
      Weights weights = trained(strategy);
      const std::lock_guard lock(mutex);
      all[strategy.worker_index()] = std::move(weights);
    });
    ASSERT_EQ(all.size(), layout.size());
    for (const auto& [worker, weights] : all)
      expect_same(weights, one, 1e-10, "worker " + std::to_string(worker));
  }
}

}  // namespace
}  // namespace brigade::parity
