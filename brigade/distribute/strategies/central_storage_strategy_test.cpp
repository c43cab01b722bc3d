#include "brigade/distribute/strategies/central_storage_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"

namespace brigade::distribute {
namespace {

using variables::Caching;

/// Trains some steps on unevenly split batches. Returns the weights.
std::vector<at::Tensor> trained(Strategy& strategy, std::optional<int> updates = std::nullopt) {
  const auto model = strategy.create<AffineModule>();
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.1});
  std::vector<at::Tensor> batches;
  std::vector<std::int64_t> sizes;
  for (int replica = 0; replica < strategy.num_replicas_in_sync(); ++replica) {
    sizes.push_back(3 - replica % 3);
    batches.push_back(at::arange(replica * 9, replica * 9 + 3 * sizes.back(), at::kDouble)
                          .view({sizes.back(), 3})
                          .sin());
  }
  const PerReplica<at::Tensor> batch(std::move(batches), ExampleCounts::of(sizes));
  for (int step = 0; step < updates.value_or(3); ++step) {
    strategy.run([&](ReplicaContext&,
                     const at::Tensor& x) { adam.minimize((model(x) - 1).square().sum(1)); },
                 batch);
  }
  std::vector<at::Tensor> weights;
  for (const auto& variable : model.variables()) weights.push_back(variable.read());
  return weights;
}

TEST(CentralStorageStrategy, TrainsBitForBitAsMirroredOnCpu) {
  for (const int replicas : {2, 3}) {
    MirroredStrategy mirrored(cpus(replicas));
    const auto expected = trained(mirrored);
    for (const Caching caching : {Caching::kWhereNeeded, Caching::kAlways}) {
      CentralStorageStrategy strategy(central_cpus(replicas, caching));
      const auto ours = trained(strategy);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(at::equal(ours[i], expected[i])) << i;
    }
  }
}

TEST(CentralStorageStrategy, ReplicasOnTheControllersDeviceReadItsMemory) {
  CentralStorageStrategy strategy(central_cpus(2));
  const auto model = strategy.create<AffineModule>();
  EXPECT_EQ(strategy.name(), "central_storage");
  for (const auto& variable : model.variables()) {
    EXPECT_TRUE(variable.storage()->is_central());
    EXPECT_EQ(variable.component(0).const_data_ptr(), variable.component(1).const_data_ptr());
  }
}

TEST(CentralStorageStrategy, CopiesAreFetchedOncePerStep) {
  CentralStorageStrategy strategy(central_cpus(2, Caching::kAlways));
  const auto model = strategy.create<AffineModule>();
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.1});
  const auto& weight = model.variables()[0];
  EXPECT_NE(weight.component(0).const_data_ptr(), weight.component(1).const_data_ptr());
  strategy.run([&](ReplicaContext&) {
    adam.minimize((model(at::full({1, 3}, 1.0, at::kDouble)) - 1).square().sum(1));
  });
  const at::Tensor home = weight.storage()->master(0).narrow(0, weight.offset(), 3);
  EXPECT_FALSE(at::equal(home, at::full({3}, 2.0, at::kDouble))) << "the controller was updated";
  for (const int replica : {0, 1}) EXPECT_TRUE(at::equal(weight.component(replica), home));
}

TEST(CentralStorageStrategy, SlotsExistOnce) {
  CentralStorageStrategy strategy(central_cpus(3, Caching::kAlways));
  const auto model = strategy.create<AffineModule>();
  const auto adam = strategy.optimizer(model, optim::Adam{});
  EXPECT_EQ(adam.state().slot(0, 0, 0).const_data_ptr(),
            adam.state().slot(0, 0, 2).const_data_ptr());
}

TEST(CentralStorageStrategy, WithOneComputeDeviceTheVariablesAreOnIt) {
  CentralStorageStrategy strategy({.compute_devices = {"/cpu:0"}});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const auto model = strategy.create<AffineModule>();
  const auto& weight = model.variables()[0];
  EXPECT_FALSE(weight.storage()->is_cached(0));
  EXPECT_EQ(weight.storage()->master(0).device(), strategy.devices()[0].torch_device);
}

TEST(CentralStorageStrategy, AssignedValuesReachTheControllerAndTheCopies) {
  for (const Caching caching : {Caching::kWhereNeeded, Caching::kAlways}) {
    CentralStorageStrategy strategy(central_cpus(2, caching));
    const auto scope = strategy.scope();
    const auto variable = variables::make_variable({.name = "v",
                                                    .initial = at::full({2}, 1, at::kDouble),
                                                    .aggregation = variables::Aggregation::kSum});
    const auto expect = [&](double value) {
      const at::Tensor wanted = at::full({2}, value, at::kDouble);
      EXPECT_TRUE(at::equal(variable.storage()->master(0).narrow(0, 0, 2), wanted));
      for (const int replica : {0, 1})
        EXPECT_TRUE(at::equal(variable.component(replica), wanted)) << replica;
    };
    expect(1);
    variable.assign(at::full({2}, 3, at::kDouble));
    expect(3);
    variable.assign_add(at::full({2}, 1, at::kDouble));
    expect(4);
    strategy.run([&](ReplicaContext&) { variable.assign(at::full({2}, 5, at::kDouble)); });
    expect(10);
    strategy.run([&](ReplicaContext&) { variable.assign_add(at::full({2}, 1, at::kDouble)); });
    expect(12);
  }
}

struct Normed : torch::nn::Module {
  Normed() { norm = register_module("norm", torch::nn::BatchNorm1d(3)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(CentralStorageStrategy, BatchStatisticsAreTheFirstReplicas) {
  CentralStorageStrategy strategy(central_cpus(2));
  const auto model = strategy.create<Normed>();
  strategy.run([&](ReplicaContext& context) {
    model(at::full({4, 3}, context.replica_id() == 0 ? 10.0 : 1000.0));
  });
  model.eval();
  for (const auto& variable : model.variables()) {
    if (variable.name() != "norm.running_mean") continue;
    for (const int replica : {0, 1})
      EXPECT_TRUE(variable.component(replica).allclose(at::full({3}, 1.0))) << "0.1 of ten";
  }
}

TEST(CentralStorageStrategy, CrossDeviceOpsCanBeChosen) {
  MirroredStrategy mirrored(cpus(4));
  const auto expected = trained(mirrored);
  const std::vector<std::shared_ptr<const comm::CrossDeviceOps>> choices = {
      std::make_shared<comm::ReductionToOneDevice>(),
      std::make_shared<comm::HierarchicalCopyAllReduce>(
          comm::HierarchicalCopyOptions{.num_buckets = 2, .group_size = 2}),
      std::make_shared<comm::AllReduce>()};
  for (const auto& ops : choices) {
    for (const Caching caching : {Caching::kWhereNeeded, Caching::kAlways}) {
      CentralStorageOptions options = central_cpus(4, caching);
      options.cross_device_ops = ops;
      CentralStorageStrategy strategy(options);
      const auto ours = trained(strategy);
      MirroredOptions mirrored_options = cpus(4);
      mirrored_options.cross_device_ops = ops;
      MirroredStrategy another(mirrored_options);
      const auto theirs = trained(another);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(ours[i].allclose(expected[i], 1e-12)) << ops->name() << " " << i;
        EXPECT_TRUE(theirs[i].allclose(expected[i], 1e-12)) << ops->name() << " " << i;
      }
    }
  }
}

TEST(CentralStorageStrategy, RefusesDevicesThatDoNotExist) {
  EXPECT_EQ(error_from([] {
              CentralStorageStrategy strategy(
                  {.compute_devices = {"cpu:0"}, .parameter_device = "gpu:77"});
            }).code(),
            ErrorCode::kNotFound);
  EXPECT_EQ(error_from([] {
              CentralStorageStrategy strategy({.compute_devices = {"cpu:0", "/cpu:0"}});
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
