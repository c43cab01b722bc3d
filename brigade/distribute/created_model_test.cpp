#include "brigade/distribute/created_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/optim/sgd.h>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/get_variable.h"

namespace brigade::distribute {
namespace {

at::Tensor some_input() {
  return at::full({4, 3}, 0.5, at::kDouble);
}

/// A training step as in libtorch's tutorials, in every replica.
void step_of_torch(AffineModule& model, const at::Tensor& x) {
  torch::optim::SGD sgd(model.parameters(), 0.1);
  sgd.zero_grad();
  model.forward(x).sum().backward();
  sgd.step();
}

struct StrategyKind {
  std::string name;
  std::function<std::unique_ptr<Strategy>()> make;
};

void PrintTo(const StrategyKind& kind, std::ostream* out) {
  *out << kind.name;
}

class ModelOfAnyStrategy : public ::testing::TestWithParam<StrategyKind> {
 protected:
  const std::unique_ptr<Strategy> strategy_ = GetParam().make();
  const Replicated<AffineModule> model_ = strategy_->create<AffineModule>();
};

TEST_P(ModelOfAnyStrategy, DetectsAnOptimizerOfLibtorchAfterItsFirstStep) {
  const Error error = error_from([&] {
    strategy_->run([&](ReplicaContext&) { step_of_torch(model_.local(), some_input()); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "Variable 'weight'")) << error.what();
  EXPECT_TRUE(mentions(error, "Strategy::optimizer")) << error.what();
}

TEST_P(ModelOfAnyStrategy, DetectsAGradientOfADirectBackward) {
  const Error error = error_from(
      [&] { strategy_->run([&](ReplicaContext&) { model_(some_input()).sum().backward(); }); });
  EXPECT_TRUE(mentions(error, "Variable 'weight' has a gradient in .grad in replica"))
      << error.what();
  EXPECT_TRUE(mentions(error, "minimize(loss)")) << error.what();
  EXPECT_NO_THROW(strategy_->run([&](ReplicaContext&) { model_->zero_grad(); }))
      << "what the message says helps";
}

TEST_P(ModelOfAnyStrategy, DetectsAParameterThatTheFunctionChanged) {
  const Error error = error_from([&] {
    strategy_->run([&](ReplicaContext& context) {
      const at::NoGradGuard no_grad;
      if (context.replica_id() + 1 == context.num_replicas_in_sync()) model_->bias.fill_(1);
    });
  });
  EXPECT_TRUE(mentions(error, "Variable 'bias' was changed in place")) << error.what();
  model_.variables()[1].assign(at::zeros({3}, at::kDouble));
  EXPECT_NO_THROW(strategy_->run([](ReplicaContext&) {})) << "what the message says helps";
}

TEST_P(ModelOfAnyStrategy, DetectsAModelThatWasLoadedIntoOneReplica) {
  {
    const at::NoGradGuard no_grad;  // as torch::load does
    for (at::Tensor& parameter : model_->parameters()) parameter.copy_(at::zeros_like(parameter));
  }
  const Error error = error_from([&] { strategy_->run([](ReplicaContext&) {}); });
  EXPECT_TRUE(mentions(error, "Variable 'weight'")) << error.what();
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, ModelOfAnyStrategy,
    ::testing::Values(
        StrategyKind{"one_device", [] { return std::make_unique<OneDeviceStrategy>("cpu:0"); }},
        StrategyKind{"mirrored", [] { return std::make_unique<MirroredStrategy>(cpus(2)); }},
        StrategyKind{"central_storage",
                     [] { return std::make_unique<CentralStorageStrategy>(central_cpus(2)); }},
        StrategyKind{"central_storage_cached", [] {
                       return std::make_unique<CentralStorageStrategy>(
                           central_cpus(2, variables::Caching::kAlways));
                     }}));

TEST(CreatedModel, StepsOfItsStrategysOptimizersAreNoChange) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  for (int step = 0; step < 3; ++step) {
    EXPECT_NO_THROW(strategy.run(
        [&](ReplicaContext&) { sgd.minimize(model(some_input()).sum(), LossScale::kSum); }));
  }
}

TEST(CreatedModel, IsCheckedAsLongAsItHasAHandle) {
  MirroredStrategy strategy(cpus(2));
  const auto spoil = [](const Replicated<AffineModule>& model) {
    model(some_input()).sum().backward();
  };
  {
    const auto model = strategy.create<AffineModule>();
    spoil(model);
  }
  EXPECT_NO_THROW(strategy.run([](ReplicaContext&) {}));
  auto model = strategy.create<AffineModule>();
  spoil(model);
  const auto copy = model;
  model = strategy.create<AffineModule>({.name = "other"});
  EXPECT_THROW(strategy.run([](ReplicaContext&) {}), Error);
}

TEST(CreatedModel, OfAFunctionIsCheckedToo) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create(
      [](const at::Tensor& x, variables::Mode mode) {
        const at::Tensor w = variables::get_variable("w", {{3}}, {.dtype = at::kDouble}).local();
        return mode == variables::Mode::kTraining ? x * w : w;
      },
      some_input());
  model->eval();
  const Error modes = error_from([&] { strategy.run([](ReplicaContext&) {}); });
  EXPECT_TRUE(mentions(modes, "Write model.eval()")) << modes.what();
  model.train();
  const Error error = error_from(
      [&] { strategy.run([&](ReplicaContext&) { model(some_input()).sum().backward(); }); });
  EXPECT_TRUE(mentions(error, "Variable 'w'")) << error.what();
}

/// A model with two submodules that have a mode.
struct Noisy : torch::nn::Module {
  Noisy() {
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(norm(x)); }
  torch::nn::Dropout dropout{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(CreatedModel, ModesMustBeEqualInAllReplicasBeforeARun) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Noisy>();
  int runs = 0;
  const auto run = [&] {
    strategy.run([&](ReplicaContext& context) {
      if (context.replica_id() == 0) ++runs;
    });
  };
  model->eval();
  const Error error = error_from(run);
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "evaluation mode in replica 0 and in training mode in replica 1"))
      << error.what();
  EXPECT_TRUE(mentions(error, "Write model.eval()")) << error.what();
  EXPECT_EQ(runs, 0);
  model.eval();
  EXPECT_NO_THROW(run());
  model->train();
  EXPECT_THROW(run(), Error);
  model.train();
  EXPECT_NO_THROW(run());
  EXPECT_EQ(runs, 2);
}

TEST(CreatedModel, ASubmoduleMayBeSwitchedInEveryReplica) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Noisy>();
  const auto run = [&] { strategy.run([](ReplicaContext&) {}); };
  model.replica(1).norm->eval();
  const Error error = error_from(run);
  EXPECT_TRUE(mentions(error, "The submodule 'norm'")) << error.what();
  model.replica(0).norm->eval();
  EXPECT_NO_THROW(run());
  EXPECT_NO_THROW(strategy.run([&](ReplicaContext&) { model->eval(); })) << "each switches its own";
  EXPECT_NO_THROW(run());
}

TEST(CreatedModel, TheArrowOutsideOfRunReadsReplica0) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  EXPECT_EQ(model->named_parameters().size(), 3u);
  EXPECT_EQ(model->forward(some_input()).size(0), 4);
  EXPECT_NO_THROW(strategy.run([](ReplicaContext&) {}));
}

TEST(CreatedModel, AnErrorOfBatchNormOnOneExampleNamesTheCauseAndTheFix) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Noisy>();
  const PerReplica<at::Tensor> three({at::ones({2, 2}), at::ones({1, 2})},
                                     ExampleCounts::of({2, 1}));
  const Error error = error_from(
      [&] { strategy.run([&](ReplicaContext&, const at::Tensor& x) { model(x); }, three); });
  EXPECT_TRUE(mentions(error, "Replica 1")) << error.what();
  EXPECT_TRUE(mentions(error, "held 1 of the step's 3 examples")) << error.what();
  EXPECT_TRUE(mentions(error, "Remainder::kDrop")) << error.what();
}

}  // namespace
}  // namespace brigade::distribute
