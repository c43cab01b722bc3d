#include "brigade/distribute/optimizer/gradients.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

TEST(Gradients, AreFoundByIndexAndByName) {
  const std::vector<variables::Variable> variables = {
      variables::make_variable({.name = "a", .initial = at::zeros({1})}),
      variables::make_variable({.name = "b", .initial = at::zeros({1})})};
  Gradients gradients(variables, {at::full({1}, 1.0), at::full({1}, 2.0)}, GradientState::kLocal,
                      7);
  EXPECT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients.step(), 7u);
  EXPECT_EQ(gradients.state(), GradientState::kLocal);
  EXPECT_EQ(gradients.variable(1).name(), "b");
  EXPECT_TRUE(gradients["b"].is_same(gradients[1]));
  gradients["a"] = at::Tensor();
  EXPECT_FALSE(gradients.values()[0].defined());
  const Error error = error_from([&] { gradients["c"]; });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "a, b")) << error.what();
}

struct Wrong {
  std::string what;
  at::Tensor gradient;
  std::string given;  // as the message has it
};

/// What a program may assign in place of a gradient of 3 doubles.
std::vector<Wrong> wrong_gradients() {
  return {{"a scalar", at::ones({}, at::kDouble), "Double[]"},
          {"too few", at::ones({2}, at::kDouble), "Double[2]"},
          {"too many", at::ones({4}, at::kDouble), "Double[4]"},
          {"another shape", at::ones({1, 3}, at::kDouble), "Double[1, 3]"},
          {"another dtype", at::ones({3}), "Float[3]"},
          {"another device", at::empty({3}, at::TensorOptions(at::kDouble).device(at::kMeta)),
           "on meta"}};
}

void expect_named(const Error& error, const Wrong& wrong) {
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << wrong.what << ": " << error.what();
  for (const std::string& text : {std::string("'weight'"), wrong.given, std::string("Double[3]")})
    EXPECT_TRUE(mentions(error, text)) << wrong.what << ": " << error.what();
}

using Use = std::function<void(const Optimizer&, const Gradients&)>;

void apply(const Optimizer& sgd, const Gradients& gradients) {
  sgd.apply_gradients(gradients);
}
void aggregate(const Optimizer& sgd, const Gradients& gradients) {
  sgd.aggregate(gradients);
}

/// Each wrong gradient, in one replica of `strategy`, is refused, and nothing has changed.
template <class SomeStrategy>
void expect_refused_in(SomeStrategy& strategy, const Use& use) {
  const auto model = strategy.template create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const at::Tensor before = model.variables()[0].read();
  for (const Wrong& wrong : wrong_gradients()) {
    expect_named(error_from([&] {
                   strategy.run([&](ReplicaContext& context) {
                     Gradients gradients =
                         sgd.compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled);
                     if (context.id == 0) gradients["weight"] = wrong.gradient;
                     use(sgd, gradients);
                   });
                 }),
                 wrong);
    EXPECT_TRUE(model.variables()[0].read().equal(before)) << wrong.what;
  }
}

TEST(AssignedGradients, AreCheckedWhereTheyAreApplied) {
  for (const int replicas : {1, 2}) {
    MirroredStrategy mirrored(cpus(replicas));
    expect_refused_in(mirrored, apply);
    CentralStorageStrategy central(central_cpus(replicas, variables::Caching::kAlways));
    expect_refused_in(central, apply);
  }
}

TEST(AssignedGradients, AreCheckedWhereTheyAreAggregated) {
  MirroredStrategy mirrored(cpus(2));
  expect_refused_in(mirrored, aggregate);
  CentralStorageStrategy central(central_cpus(2));
  expect_refused_in(central, aggregate);
}

TEST(AssignedGradients, AreCheckedAfterTheyWereAggregated) {
  MirroredStrategy strategy(cpus(2));
  expect_refused_in(strategy, [](const Optimizer& sgd, const Gradients& local) {
    const at::Tensor assigned = local[0];
    const bool is_wrong = assigned.sizes() != at::IntArrayRef({3}) ||
                          assigned.scalar_type() != at::kDouble || assigned.is_meta();
    Gradients sums = sgd.aggregate({local.variables(),
                                    {at::ones({3}, at::kDouble), {}, {}},
                                    GradientState::kLocal,
                                    local.step()});
    if (is_wrong) sums[0] = assigned;
    sgd.apply_gradients(sums);
  });
}

TEST(AssignedGradients, OfTowersAreCheckedWhereTheyAreAveragedAndApplied) {
  CentralStorageStrategy strategy(central_cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  for (const Wrong& wrong : wrong_gradients()) {
    if (wrong.given == "on meta") continue;  // the average is moved to the variables' device
    auto towers = strategy.run([&](ReplicaContext&) {
      return sgd.compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled);
    });
    Gradients mean = average_gradients(towers);
    mean[0] = wrong.gradient;
    expect_named(error_from([&] { sgd.apply_gradients(mean); }), wrong);
    towers[1][0] = wrong.gradient;
    expect_named(error_from([&] { average_gradients(towers); }), wrong);
  }
}

TEST(AssignedGradients, AreCheckedWhereGradientsAreMade) {
  MirroredStrategy strategy(cpus(1));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const auto& variables = sgd.state().variables();
  for (const Wrong& wrong : wrong_gradients()) {
    if (wrong.given == "on meta") continue;  // no replica is known yet
    expect_named(error_from([&] {
                   Gradients(variables, {wrong.gradient, {}, {}}, GradientState::kLocal, 0);
                 }),
                 wrong);
  }
  const Error error = error_from(
      [&] { Gradients(variables, {at::ones({3}, at::kDouble)}, GradientState::kLocal, 0); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "1 gradients for 3 variables")) << error.what();
}

TEST(AssignedGradients, OfAnotherOptimizerAreRefused) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto other_model = strategy.create<AffineModule>({.name = "other"});
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  const auto other = strategy.optimizer(other_model, optim::Sgd{});
  for (const Use& use : {Use(apply), Use(aggregate)}) {
    const Error error = error_from([&] {
      strategy.run([&](ReplicaContext&) {
        use(other, sgd.compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled));
      });
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mentions(error, "another optimizer")) << error.what();
  }
}

/// A parameter that a program may assign a transposed gradient of.
struct Matrix : torch::nn::Module {
  Matrix() { weight = register_parameter("weight", at::zeros({2, 3}, at::kDouble)); }
  at::Tensor weight;
};

TEST(AssignedGradients, WithAnotherMemoryLayoutAreMadeContiguousBeforeAggregation) {
  const at::Tensor wanted = at::arange(6, at::kDouble).view({2, 3});
  const at::Tensor transposed = wanted.t().contiguous().t();
  run_workers({1, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto model = strategy.create<Matrix>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{});
    strategy.run([&](ReplicaContext&) {
      Gradients gradients = sgd.compute_gradients(model->weight.sum(), LossScale::kAlreadyScaled);
      gradients[0] = transposed;
      EXPECT_TRUE(sgd.aggregate(gradients)[0].equal(wanted * 3));
    });
  });
}

at::Tensor rows_from(int first, int count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

at::Tensor mean_loss_of(const at::Tensor& outputs) {
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
          return adam.compute_gradients(mean_loss_of(model(rows_from(2 * context.replica_id(), 2))),
                                        LossScale::kAlreadyScaled);
        });
        adam.apply_gradients(average_gradients(gradients));
        one.run([&](ReplicaContext&) {
          reference.minimize(mean_loss_of(expected(rows_from(0, 2 * count))),
                             LossScale::kAlreadyScaled);
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
