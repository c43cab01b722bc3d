#include "brigade/distribute/strategies/average_gradients.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

at::Tensor rows(int first, int count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

at::Tensor mean_loss(const at::Tensor& outputs) {
  return (outputs - 1).square().sum(1).mean();
}

TEST(AverageGradients, HandWrittenTowersTrainLikeOneReplicaOnTheWholeBatch) {
  for (const auto caching : {variables::Caching::kWhereNeeded, variables::Caching::kAlways}) {
    for (const int count : {1, 2, 3}) {
      CentralStorageStrategy strategy(central_cpus(count, caching));
      const auto model = strategy.create<AffineModule>();
      const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.1});
      MirroredStrategy one(cpus(1));
      const auto expected = one.create<AffineModule>();
      const auto reference = one.optimizer(expected, optim::Adam{.learning_rate = 0.1});
      for (int step = 0; step < 3; ++step) {
        const auto gradients = strategy.run([&](ReplicaContext& context) {
          return adam.compute_gradients(mean_loss(model(rows(2 * context.replica_id(), 2))),
                                        LossScale::kAlreadyScaled);
        });
        adam.apply_gradients(average_gradients(gradients));
        one.run([&](ReplicaContext&) {
          reference.minimize(mean_loss(expected(rows(0, 2 * count))), LossScale::kAlreadyScaled);
        });
      }
      for (std::size_t i = 0; i < model.variables().size(); ++i) {
        const auto& variable = model.variables()[i];
        for (int replica = 0; replica < count; ++replica) {
          EXPECT_TRUE(variable.component(replica).allclose(expected.variables()[i].read(), 1e-12))
              << variable.name() << " in tower " << replica;
        }
      }
      EXPECT_EQ(adam.updates(), 3);
    }
  }
}

TEST(AverageGradients, AMissingGradientIsLeftOut) {
  MirroredStrategy strategy(cpus(3));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const auto gradients = strategy.run([&](ReplicaContext& context) {
    const at::Tensor weighted = model->weight.sum() * (context.replica_id() + 1);
    const at::Tensor biased = model->bias.sum() * 4;
    return sgd.compute_gradients(context.replica_id() == 1 ? weighted : weighted + biased,
                                 LossScale::kAlreadyScaled);
  });
  const Gradients mean = average_gradients(gradients);
  EXPECT_EQ(mean.state(), GradientState::kAggregated);
  EXPECT_TRUE(at::equal(mean[0], at::full({3}, 2, at::kDouble)));
  EXPECT_TRUE(at::equal(mean[1], at::full({3}, 4, at::kDouble))) << "the mean of two towers";
  EXPECT_FALSE(mean[2].defined()) << "no tower has one";
  const at::Tensor unused = model.variables()[2].read();
  sgd.apply_gradients(mean);
  EXPECT_TRUE(at::equal(model.variables()[2].read(), unused));
  EXPECT_EQ(sgd.state().step(2), 0);
  EXPECT_EQ(sgd.state().step(0), 1);
}

TEST(AverageGradients, GradientsOfOneReplicaAreRefusedOutsideOfReplicas) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const auto gradients = strategy.run([&](ReplicaContext&) {
    return sgd.compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled);
  });
  const Error error = error_from([&] { sgd.apply_gradients(gradients[0]); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "average_gradients")) << error.what();
}

TEST(AverageGradients, RefusesGradientsOfDifferentOptimizersOrSteps) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto first = strategy.optimizer(model, optim::Sgd{});
  const auto second = strategy.optimizer(model, optim::Sgd{});
  const auto compute = [&](const Optimizer& zero, const Optimizer& one) {
    return strategy.run([&](ReplicaContext& context) {
      return (context.replica_id() == 0 ? zero : one)
          .compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled);
    });
  };
  EXPECT_EQ(error_from([&] { average_gradients(compute(first, second)); }).code(),
            ErrorCode::kInvalidArgument);
  auto earlier = compute(first, first);
  const auto later = compute(first, first);
  const PerReplica<Gradients> mixed({earlier[0], later[1]});
  EXPECT_EQ(error_from([&] { average_gradients(mixed); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
