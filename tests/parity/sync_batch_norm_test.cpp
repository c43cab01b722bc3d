// N replicas on any number of workers give the result of one replica on the global batch, for
// models with batch norm in training mode that uses the statistics of the global batch.
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <mutex>

#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/sync_batch_norm.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::Strategy;

// No biases before batch norm, which cancels them: their gradient would be rounding errors only.
struct NormalizedNet : torch::nn::Module {
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

/// A similar net as a function of layers; an argument scope makes its normalizer's statistics
/// global.
at::Tensor normalized_function(const at::Tensor& images) {
  using layers::BatchStatistics;
  const auto everywhere =
      layers::arg_scope<layers::batch_norm>({.statistics = BatchStatistics::kGlobal});
  at::Tensor net = layers::conv2d(
      images, 3, {5, 5}, {.normalizer = layers::batch_normalizer({.decay = 0.9, .scale = true})});
  net = layers::max_pool2d(net, {6, 6}, {.stride = {{6, 6}}});
  net = layers::fully_connected(
      layers::flatten(net), 8,
      {.activation = nullptr, .biases_initializer = variables::Initializer()});
  net = layers::v1::batch_normalization(net, {.momentum = 0.9,
                                              .statistics = BatchStatistics::kGlobal,
                                              .mode = variables::Mode::kTraining});
  return layers::fully_connected(at::relu(net), 10, {.activation = nullptr});
}

constexpr int kSteps = 9;

const optim::Sgd kRule{.learning_rate = 0.02, .momentum = 0.9};

/// Batches of 4, 4 and 2: uneven, and empty on some replicas. Counters are compared as float64.
Weights trained(Strategy& strategy, const BatchPlan& plan = {}) {
  Weights weights = train_under<NormalizedNet>(strategy, kSteps, kRule, plan);
  for (auto* values : {&weights.before, &weights.after}) {
    for (at::Tensor& value : *values) value = value.to(at::kDouble);
  }
  return weights;
}

Weights trained_by_one() {
  MirroredStrategy strategy(distribute::cpus(1));
  return trained(strategy);
}

/// Trains the function; checks that all replicas' moving statistics have the same bits.
Weights trained_function(Strategy& strategy) {
  const auto net = strategy.create(normalized_function, at::ones({1, 1, 28, 28}, at::kDouble));
  Weights weights = train_model(strategy, net, kSteps, kRule);
  for (const auto& variable : net.variables()) {
    for (int replica = 1; replica < variable.num_components(); ++replica)
      EXPECT_TRUE(variable.component(replica).equal(variable.component(0))) << variable.name();
  }
  return weights;
}

Weights function_trained_by_one() {
  MirroredStrategy strategy(distribute::cpus(1));
  return trained_function(strategy);
}

TEST(SyncBatchNormEquivalence, OneToFourReplicasInFloat64) {
  const Weights one = trained_by_one();
  ASSERT_EQ(one.names.size(), 14u) << "parameters, running statistics and counts";
  for (int replicas = 2; replicas <= 4; ++replicas) {
    MirroredStrategy strategy(distribute::cpus(replicas));
    expect_same(trained(strategy), one, 1e-10, std::to_string(replicas) + " replicas");
  }
}

TEST(SyncBatchNormEquivalence, UnderCentralStorage) {
  const Weights one = trained_by_one();
  distribute::CentralStorageStrategy strategy(distribute::central_cpus(3));
  expect_same(trained(strategy), one, 1e-10, "3 replicas");
}

/// Expects that on each of these layouts every worker ends with the weights of `one`.
void expect_as_one_on_workers(const Weights& one,
                              const std::function<Weights(Strategy&)>& train_one) {
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 1}, {1, 1, 1}}) {
    std::mutex mutex;
    std::map<int, Weights> all;
    distribute::run_workers(layout, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
      Weights weights = train_one(strategy);
      const std::lock_guard lock(mutex);
      all[strategy.worker_index()] = std::move(weights);
    });
    ASSERT_EQ(all.size(), layout.size());
    for (const auto& [worker, weights] : all)
      expect_same(weights, one, 1e-10, "worker " + std::to_string(worker));
  }
}

TEST(SyncBatchNormEquivalence, OnSeveralWorkers) {
  expect_as_one_on_workers(trained_by_one(), [](Strategy& strategy) { return trained(strategy); });
}

TEST(GlobalBatchStatisticsEquivalence, OneToFourReplicasInFloat64) {
  const Weights one = function_trained_by_one();
  ASSERT_EQ(one.names.size(), 12u) << "weights, and four variables of each batch norm";
  for (int replicas = 2; replicas <= 4; ++replicas) {
    MirroredStrategy strategy(distribute::cpus(replicas));
    expect_same(trained_function(strategy), one, 1e-10, std::to_string(replicas) + " replicas");
  }
}

TEST(GlobalBatchStatisticsEquivalence, UnderCentralStorage) {
  distribute::CentralStorageStrategy strategy(distribute::central_cpus(3));
  expect_same(trained_function(strategy), function_trained_by_one(), 1e-10, "3 replicas");
}

TEST(GlobalBatchStatisticsEquivalence, OnSeveralWorkers) {
  expect_as_one_on_workers(function_trained_by_one(), trained_function);
}

}  // namespace
}  // namespace brigade::parity
