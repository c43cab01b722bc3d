// N replicas on a split batch give the result of one replica on the global batch.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/examples.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::CentralStorageStrategy;
using distribute::MirroredStrategy;
using distribute::ReplicaContext;
using distribute::Replicated;

using MakeStrategy = std::function<std::unique_ptr<distribute::Strategy>(int replicas)>;

std::unique_ptr<distribute::Strategy> mirrored(int replicas) {
  return std::make_unique<MirroredStrategy>(distribute::cpus(replicas));
}
std::unique_ptr<distribute::Strategy> central(int replicas) {
  return std::make_unique<CentralStorageStrategy>(distribute::central_cpus(replicas));
}
/// With copies, as for replicas on other devices than the controller.
std::unique_ptr<distribute::Strategy> central_with_copies(int replicas) {
  return std::make_unique<CentralStorageStrategy>(
      distribute::central_cpus(replicas, variables::Caching::kAlways));
}
MakeStrategy central_by(std::shared_ptr<const comm::CrossDeviceOps> ops) {
  return [ops](int replicas) {
    distribute::CentralStorageOptions options = distribute::central_cpus(replicas);
    options.cross_device_ops = ops;
    return std::make_unique<CentralStorageStrategy>(options);
  };
}

template <class Model, class Rule>
Weights trained(const MakeStrategy& make, int replicas, int steps, const Rule& rule,
                const BatchPlan& plan = {}) {
  const auto strategy = make(replicas);
  EXPECT_EQ(strategy->num_replicas_in_sync(), replicas);
  return train_under<Model>(*strategy, steps, rule, plan);
}

std::string on(int replicas) {
  return base::str_cat("on ", replicas, " replicas");
}

template <class Model, class Rule>
void expect_agreement(int steps, const Rule& rule, double tolerance,
                      const std::vector<MakeStrategy>& strategies = {mirrored}) {
  const Weights one = trained<Model>(mirrored, 1, steps, rule);
  for (const MakeStrategy& make : strategies) {
    for (const int replicas : {2, 3, 4})
      expect_same(trained<Model>(make, replicas, steps, rule), one, tolerance, on(replicas));
  }
}

TEST(ReplicasAgree, FiftyStepsOfSgdOnTheMnistCnnInFloat64) {
  expect_agreement<models::MnistCnn>(50, optim::Sgd{.learning_rate = 0.05}, 1e-10);
}

TEST(ReplicasAgree, MomentumInFloat64) {
  expect_agreement<models::Mlp>(
      50, optim::Sgd{.learning_rate = 0.02, .momentum = 0.9, .nesterov = true}, 1e-10);
}

TEST(ReplicasAgree, AdamInFloat64) {
  expect_agreement<models::Mlp>(50, optim::Adam{.learning_rate = 1e-3}, 1e-8);
  expect_agreement<models::Mlp>(50, optim::AdamW{.learning_rate = 1e-3}, 1e-8);
}

TEST(ReplicasAgree, UnderAControllerInFloat64) {
  expect_agreement<models::MnistCnn>(10, optim::Sgd{.learning_rate = 0.05}, 1e-10,
                                     {central, central_with_copies});
  expect_agreement<models::Mlp>(50, optim::Adam{.learning_rate = 1e-3}, 1e-8,
                                {central, central_with_copies});
}

TEST(ReplicasAgree, WithAllCrossDeviceOps) {
  expect_agreement<models::Mlp>(
      20, optim::Sgd{.learning_rate = 0.02, .momentum = 0.9}, 1e-10,
      {central_by(std::make_shared<comm::ReductionToOneDevice>()),
       central_by(std::make_shared<comm::HierarchicalCopyAllReduce>(
           comm::HierarchicalCopyOptions{.num_buckets = 2, .group_size = 2})),
       central_by(std::make_shared<comm::AllReduce>())});
}

TEST(ReplicasAgree, MicroBatchesOfFourFourAndTwoEqualOneBatchOfTen) {
  const optim::Sgd rule{.learning_rate = 0.02, .momentum = 0.9};
  const Weights one = trained<models::Mlp>(mirrored, 1, 20, rule, {.batch = BatchPlan().examples});
  for (const MakeStrategy& make : {MakeStrategy(mirrored), MakeStrategy(central_with_copies)}) {
    for (const int replicas : {1, 2, 3, 4})
      expect_same(trained<models::Mlp>(make, replicas, 20, rule, {.accumulate = 3}), one, 1e-10,
                  on(replicas));
  }
}

/// The aggregated gradients of the first step in float32.
std::vector<at::Tensor> first_gradients(int replicas) {
  MirroredStrategy strategy(distribute::cpus(replicas));
  const auto model = strategy.create<models::MnistCnn>();
  const auto optimizer = strategy.optimizer(model, optim::Sgd{});
  std::vector<at::Tensor> gradients;
  for (const auto& batch : strategy.distribute(examples(18).batch(18))) {
    strategy.run(
        [&](ReplicaContext& context, const input::LabeledBatch& local_batch) {
          const auto local =
              optimizer.compute_gradients(layers::losses::sparse_softmax_cross_entropy(
                  model(local_batch.features), local_batch.labels));
          const auto whole = optimizer.aggregate(local);
          if (context.replica_id() == 0)
            gradients.assign(whole.values().begin(), whole.values().end());
        },
        batch);
  }
  return gradients;
}

TEST(ReplicasAgree, EveryGradientOfTheFirstStepInFloat32) {
  const auto one = first_gradients(1);
  ASSERT_EQ(one.size(), 8u);
  for (const int replicas : {2, 3, 4}) {
    const auto many = first_gradients(replicas);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double size = one[i].norm().item<double>();
      EXPECT_GT(size, 0);
      EXPECT_LE((many[i] - one[i]).norm().item<double>(), 1e-5 * size)
          << "gradient " << i << " on " << replicas << " replicas";
    }
  }
}

}  // namespace
}  // namespace brigade::parity
