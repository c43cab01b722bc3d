// The bits of a training depend on the number of logical replicas, and not on the devices and
// workers that compute them.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/sync_batch_norm.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

constexpr int kExamples = 60;
constexpr int kBatch = 20;  // 4, 6 and 8 replicas get uneven parts
constexpr std::uint64_t kSeed = 5;

/// Dropout and batch normalization (`Norm`): random numbers and statistics of each replica, or
/// statistics of all of them.
template <class Norm>
struct ConvNet : torch::nn::Module {
  ConvNet() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 5, 3)));
    norm = register_module("norm", Norm(5));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    dense = register_module("dense", torch::nn::Linear(5 * 6 * 6, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = norm->forward(conv->forward(images)).relu();
    return dense->forward(dropout->forward(features.flatten(1)));
  }
  torch::nn::Conv2d conv{nullptr};
  Norm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear dense{nullptr};
};

enum class Case { kMomentum, kAdamWithClipping, kSynchronizedNorm };

/// Trains two epochs, and returns the hash of the weights, with statistics, and the last loss.
template <class Norm>
std::string train_with(Strategy& strategy, Case what) {
  const at::Tensor images = at::arange(kExamples * 64, at::kFloat).view({kExamples, 1, 8, 8}).sin();
  const at::Tensor labels = at::arange(kExamples, at::kLong).remainder(4);
  const auto data = input::from_tensor_slices(images, labels).shuffle(kExamples).batch(kBatch);
  const auto model = strategy.create<ConvNet<Norm>>();
  const auto optimizer =
      what == Case::kAdamWithClipping
          ? strategy.optimizer(model, optim::Adam{.learning_rate = 0.01})
          : strategy.optimizer(model, optim::Sgd{.learning_rate = 0.05, .momentum = 0.9});
  std::string losses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : strategy.distribute(data)) {
      const auto step = [&](ReplicaContext&, const input::LabeledBatch& local) {
        const at::Tensor loss =
            layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
        if (what == Case::kAdamWithClipping) {
          Gradients sums = optimizer.aggregate(optimizer.compute_gradients(loss));
          optim::clip_by_global_norm_(sums, 0.5);
          optimizer.apply_gradients(sums);
        } else {
          optimizer.minimize(loss);
        }
        return loss.detach();
      };
      losses = base::str_cat(strategy.reduce(comm::ReduceOp::kMean, strategy.run(step, batch)));
    }
  }
  std::vector<checkpoint::NamedTensor> weights;
  for (const variables::Variable& variable : model.variables())
    weights.push_back({.name = variable.name(), .tensor = variable.read()});
  return checkpoint::weights_sha256(weights) + " " + losses;
}

std::string train(Strategy& strategy, Case what) {
  return what == Case::kSynchronizedNorm ? train_with<layers::SyncBatchNorm>(strategy, what)
                                         : train_with<torch::nn::BatchNorm2d>(strategy, what);
}

std::string train_mirrored(int devices, int logical_replicas, Case what) {
  MirroredOptions options = cpus(devices, kSeed);
  options.logical_replicas = logical_replicas;
  MirroredStrategy strategy(options);
  return train(strategy, what);
}

/// One result a worker.
std::vector<std::string> train_workers(const std::vector<int>& devices, int logical_replicas,
                                       Case what,
                                       comm::Transport transport = comm::Transport::kSharedMemory) {
  std::mutex mutex;  // guards `results`
  std::vector<std::string> results;
  run_workers(
      devices,
      [&](MultiWorkerMirroredStrategy& strategy) {
        std::string result = train(strategy, what);
        const std::lock_guard lock(mutex);
        results.push_back(std::move(result));
      },
      {.transport = transport}, kSeed, logical_replicas);
  return results;
}

class LogicalReplicasTraining : public ::testing::TestWithParam<Case> {};

TEST_P(LogicalReplicasTraining, HasTheSameBitsOnAnyNumberOfDevices) {
  for (const int logical : {3, 4, 6, 8}) {
    OneDeviceStrategy one(
        OneDeviceOptions{.device = "cpu:0", .logical_replicas = logical, .seed = kSeed});
    const std::string expected = train(one, GetParam());
    for (int devices = 1; devices <= std::min(logical, 4); ++devices) {
      EXPECT_EQ(train_mirrored(devices, logical, GetParam()), expected)
          << logical << " logical replicas on " << devices << " devices";
    }
  }
}

TEST_P(LogicalReplicasTraining, HasTheSameBitsOnAnyNumberOfWorkers) {
  for (const int logical : {4, 6}) {
    const std::string expected = train_mirrored(1, logical, GetParam());
    for (const std::vector<int>& devices : {std::vector{1, 1}, std::vector{1, 2}, std::vector{2, 2},
                                            std::vector{1, 1, 1}, std::vector{1, 1, 1, 1}}) {
      for (const std::string& result : train_workers(devices, logical, GetParam()))
        EXPECT_EQ(result, expected) << logical << " logical replicas on " << devices.size()
                                    << " workers, the last with " << devices.back() << " devices";
    }
  }
}

TEST_P(LogicalReplicasTraining, HasTheSameBitsOverGloo) {
  const std::string expected = train_mirrored(1, 6, GetParam());
  for (const std::vector<int>& devices : {std::vector{1, 2}, std::vector{1, 1, 1}})
    for (const std::string& result : train_workers(devices, 6, GetParam(), comm::Transport::kGloo))
      EXPECT_EQ(result, expected) << devices.size() << " workers";
}

// Without an option, too: a replica a device.
TEST_P(LogicalReplicasTraining, TwoWorkersOfTwoDevicesEqualOneOfFour) {
  const std::string expected = train_mirrored(4, 0, GetParam());
  for (const std::string& result : train_workers({2, 2}, 0, GetParam()))
    EXPECT_EQ(result, expected);
}

// What must differ, or the tests above would prove nothing.
TEST_P(LogicalReplicasTraining, DependsOnTheNumberOfLogicalReplicas) {
  EXPECT_NE(train_mirrored(1, 4, GetParam()), train_mirrored(1, 6, GetParam()));
}

/// A dense layer whose weights are so large that the gradients of a device's replicas are summed as
/// products (`layers::dense_product`).
struct WideNet : torch::nn::Module {
  WideNet() {
    wide = register_module("wide", torch::nn::Linear(1024, 1024));
    dense = register_module("dense", torch::nn::Linear(1024, 4));
  }
  at::Tensor forward(const at::Tensor& features) {
    const at::Tensor weight = sums_products ? wide->weight : wide->weight.view_as(wide->weight);
    return dense->forward(layers::dense_product(features, weight, wide->bias).relu());
  }
  bool sums_products = true;
  torch::nn::Linear wide{nullptr}, dense{nullptr};
};

struct WideTraining {
  int replicas = 1;
  bool sums_products = true;
  int accumulate = 1;
};

/// The weights after three steps.
template <class MakeStrategy>
at::Tensor train_wide(const WideTraining& training, const MakeStrategy& make_strategy) {
  auto strategy = make_strategy();
  auto model = strategy.template create<WideNet>();
  for (int replica = 0; replica < training.replicas; ++replica)
    model.replica(replica).sums_products = training.sums_products;
  const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1},
                                            {.accumulate = training.accumulate});
  for (int step = 0; step < 3 * training.accumulate; ++step) {
    strategy.run([&](ReplicaContext& context) {
      const int examples = 3 + context.replica_id();
      const at::Tensor features = at::arange(examples * 1024, at::kFloat)
                                      .view({examples, 1024})
                                      .add(100 * context.replica_id() + 7 * step)
                                      .sin();
      const at::Tensor labels = at::arange(examples, at::kLong).remainder(4);
      optimizer.minimize(
          layers::losses::sparse_softmax_cross_entropy(model(features), labels).mul(examples),
          LossScale::kSum);
    });
  }
  std::vector<at::Tensor> weights;
  for (const variables::Variable& variable : model.variables())
    weights.push_back(variable.read().flatten());
  return at::cat(weights);
}

MirroredStrategy mirrored_on(int devices, int logical_replicas) {
  MirroredOptions options = cpus(devices, kSeed);
  options.logical_replicas = logical_replicas;
  return MirroredStrategy(options);
}

TEST(LogicalReplicasOfWideLayers, SumProductsWithTheBitsOfGradientsThatAreComputed) {
  for (const int logical : {2, 3, 4, 6, 8}) {
    const at::Tensor expected = train_wide({.replicas = logical, .sums_products = false},
                                           [&] { return mirrored_on(1, logical); });
    for (int devices = 1; devices <= std::min(logical, 4); ++devices) {
      const at::Tensor weights =
          train_wide({.replicas = logical}, [&] { return mirrored_on(devices, logical); });
      EXPECT_TRUE(weights.equal(expected))
          << logical << " logical replicas on " << devices << " devices";
    }
  }
}

TEST(LogicalReplicasOfWideLayers, AccumulateWithTheBitsOfGradientsThatAreComputed) {
  const auto one_device = [] { return OneDeviceStrategy({.device = "cpu:0", .seed = kSeed}); };
  EXPECT_TRUE(train_wide({.accumulate = 5}, one_device)
                  .equal(train_wide({.sums_products = false, .accumulate = 5}, one_device)));
}

std::string case_name(const ::testing::TestParamInfo<Case>& instance) {
  switch (instance.param) {
    case Case::kMomentum:
      return "Momentum";
    case Case::kAdamWithClipping:
      return "AdamWithClipping";
    case Case::kSynchronizedNorm:
      return "SynchronizedNorm";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Cases, LogicalReplicasTraining,
                         ::testing::Values(Case::kMomentum, Case::kAdamWithClipping,
                                           Case::kSynchronizedNorm),
                         case_name);

TEST(LogicalReplicasOptions, FewerThanDevicesAreRefusedByBothNumbers) {
  MirroredOptions options = cpus(3);
  options.logical_replicas = 2;
  const Error error = error_from([&] { MirroredStrategy{options}; });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("logical_replicas is 2 and there are 3 devices"),
            std::string::npos)
      << error.what();
}

TEST(LogicalReplicasOptions, CrossDeviceOpsAreRefused) {
  MirroredOptions options = cpus(2);
  options.logical_replicas = 4;
  options.cross_device_ops = std::make_shared<comm::ReductionToOneDevice>();
  EXPECT_EQ(error_from([&] { MirroredStrategy{options}; }).code(), ErrorCode::kInvalidArgument);
}

TEST(LogicalReplicasOptions, InputOfEachWorkerIsRefused) {
  MirroredOptions options = cpus(2);
  options.logical_replicas = 4;
  MirroredStrategy strategy(options);
  const auto data = input::from_tensor_slices(at::rand({8, 2})).batch(4);
  for (const auto policy :
       {AutoShardPolicy::kFile, AutoShardPolicy::kHint, AutoShardPolicy::kOff}) {
    EXPECT_EQ(error_from([&] { strategy.distribute(data, {.auto_shard = policy}); }).code(),
              ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace brigade::distribute
