#include "brigade/distribute/replicated.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

/// Batch normalization of two features, with running statistics.
struct Normalized : torch::nn::Module {
  Normalized() { norm = register_module("norm", torch::nn::BatchNorm1d(2)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm{nullptr};
};

const variables::Variable& named(const Replicated<Normalized>& model, const std::string& name) {
  for (const variables::Variable& variable : model.variables()) {
    if (variable.name() == name) return variable;
  }
  throw Error(ErrorCode::kNotFound, name);
}

TEST(Replicated, IsTheCallingReplicasModuleInsideAndReplicaZerosOutside) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  EXPECT_EQ(&model.local(), &model.replica(0));
  EXPECT_NE(&model.replica(0), &model.replica(1));
  strategy.run([&](ReplicaContext& context) {
    EXPECT_EQ(&model.local(), &model.replica(context.replica_id()));
    EXPECT_EQ(model.operator->(), &model.local());
  });
  EXPECT_EQ(model(at::full({3}, 1.0, at::kDouble)).sum().item<double>(), 6);
}

TEST(Replicated, IsRefusedInAReplicaOfAnotherStrategy) {
  MirroredStrategy creator(cpus(2));
  const auto model = creator.create<AffineModule>();
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy other(cpus(replicas));
    const Error error =
        error_from([&] { other.run([&](ReplicaContext&) { model->weight.numel(); }); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(mentions(error, "of the strategy mirrored (cpu:0, cpu:1)")) << error.what();
    EXPECT_TRUE(mentions(error, "another, mirrored (cpu:0")) << error.what();
  }
  EXPECT_NO_THROW(creator.run([&](ReplicaContext&) { model->weight.numel(); }));
}

TEST(Replicated, TrainAndEvalSwitchEveryReplica) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Normalized>();
  model.eval();
  EXPECT_FALSE(model.replica(0).is_training());
  EXPECT_FALSE(model.replica(1).norm->is_training());
  model.train();
  EXPECT_TRUE(model.replica(1).is_training());
}

TEST(Replicated, EvaluationUsesTheMeanOfTheReplicasStatistics) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Normalized>();
  strategy.run([&](ReplicaContext& context) {
    model(at::full({4, 2}, context.replica_id() == 0 ? 1.0F : 3.0F));
  });
  // Momentum 0.1: 0.1 and 0.3.
  EXPECT_NEAR(model.replica(0).norm->running_mean[0].item<float>(), 0.1, 1e-6);
  EXPECT_NEAR(model.replica(1).norm->running_mean[0].item<float>(), 0.3, 1e-6);
  const variables::Variable& mean = named(model, "norm.running_mean");
  EXPECT_EQ(mean.synchronization(), variables::Synchronization::kOnRead);
  EXPECT_NEAR(mean.read()[0].item<float>(), 0.2, 1e-6);
  model.eval();
  for (const int replica : {0, 1}) {
    EXPECT_NEAR(model.replica(replica).norm->running_mean[1].item<float>(), 0.2, 1e-6);
    EXPECT_EQ(model.replica(replica).norm->num_batches_tracked.item<std::int64_t>(), 1);
  }
}

}  // namespace
}  // namespace brigade::distribute
