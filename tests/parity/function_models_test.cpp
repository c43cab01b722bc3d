// N replicas give the result of one on the global batch, for models written as functions of layers,
// under every strategy that trains them, also with batch norm in evaluation mode.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/regularizers.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/models/function_classifier.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/examples.h"

namespace brigade::parity {
namespace {

using distribute::Strategy;

constexpr std::int64_t kExamples = 10;
constexpr std::int64_t kGlobalBatch = 4;  // batches of 4, 4 and 2: uneven, and empty with four

/// A convolution with batch norm in evaluation mode, and a regularized classifier.
at::Tensor model(const at::Tensor& images) {
  const auto defaults = layers::arg_scope<layers::conv2d, layers::fully_connected>(
      {.weights_regularizer = layers::l2_regularizer(1e-2)});
  const auto evaluation =
      layers::arg_scope<layers::batch_norm>({.mode = variables::Mode::kEvaluation});
  at::Tensor net = layers::conv2d(images, 4, {3, 3}, {.scope = "conv1"});
  net = layers::batch_norm(net, {.scale = true});
  net = layers::max_pool2d(net, {4, 4}, {.stride = {{4, 4}}});
  return layers::fully_connected(layers::flatten(net), 10, {.activation = nullptr});
}

std::vector<at::Tensor> values(std::span<const variables::Variable> variables) {
  std::vector<at::Tensor> all;
  for (const auto& variable : variables) all.push_back(variable.read());
  return all;
}

/// All variables after `epochs` passes, in float64.
std::vector<at::Tensor> trained(Strategy& strategy, int epochs) {
  const auto net = strategy.create(model, at::ones({1, 1, 28, 28}, at::kDouble));
  for (const auto& variable : net.variables()) {
    // Statistics that have an effect.
    if (variable.name().find("moving_mean") != std::string::npos)
      variable.assign(at::full(variable.shape(), 0.25, at::kDouble));
  }
  const auto sgd = strategy.optimizer(net, optim::Sgd{.learning_rate = 0.05});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& batch : strategy.distribute(double_examples(kExamples).batch(kGlobalBatch))) {
      strategy.run(
          [&](distribute::ReplicaContext&, const input::LabeledBatch& local_batch) {
            const at::Tensor logits = net(local_batch.features);
            sgd.minimize(layers::losses::sparse_softmax_cross_entropy(logits, local_batch.labels) +
                         layers::v1::losses::get_regularization_loss());
          },
          batch);
    }
  }
  return values(net.variables());
}

using Make = std::function<std::unique_ptr<Strategy>(int)>;
struct Case {
  std::string name;
  Make make;
};

class FunctionModels : public ::testing::TestWithParam<Case> {};

TEST_P(FunctionModels, NReplicasTrainAsOne) {
  const auto one = GetParam().make(1);
  const std::vector<at::Tensor> start = trained(*one, 0);
  const auto another = GetParam().make(1);
  const std::vector<at::Tensor> alone = trained(*another, 3);
  for (int replicas = 2; replicas <= 4; ++replicas) {
    const auto strategy = GetParam().make(replicas);
    const std::vector<at::Tensor> together = trained(*strategy, 3);
    ASSERT_EQ(alone.size(), together.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const double traveled = (alone[i] - start[i]).abs().max().item<double>();
      const double apart = (alone[i] - together[i]).abs().max().item<double>();
      EXPECT_LE(apart, 1e-10 * traveled) << "variable " << i << ", " << replicas << " replicas";
    }
  }
}

TEST_P(FunctionModels, StartWithTheSameWeightsUnderEveryStrategy) {
  const auto mirrored = std::make_unique<distribute::MirroredStrategy>(distribute::cpus(2));
  const auto other = GetParam().make(3);
  const auto a = trained(*mirrored, 0);
  const auto b = trained(*other, 0);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i]));
}

/// The moving mean of a batch norm over batches whose mean is the replica's id plus one.
double moving_mean_after_a_step(Strategy& strategy) {
  const auto net = strategy.create(
      [](const at::Tensor& x) { return layers::batch_norm(x, {.decay = 0.5, .scope = "bn"}); },
      at::ones({2, 3}, at::kDouble));
  const auto sgd = strategy.optimizer(net, optim::Sgd{.learning_rate = 0.1});
  strategy.run([&](distribute::ReplicaContext& replica) {
    const auto x = at::full({2, 3}, 1.0 + replica.replica_id(), at::kDouble);
    sgd.minimize(net(x).sum(), distribute::LossScale::kSum);
  });
  for (const auto& variable : net.variables()) {
    if (variable.name() == "bn/moving_mean") return variable.read()[0].item<double>();
  }
  return -1.0;
}

// Half way from 0 to the replicas' batch means of 1, 2 and 3.
TEST(BatchNormInReplicas, UnderMirroredTheMovingMeanIsTheMeanOverTheReplicas) {
  distribute::MirroredStrategy strategy(distribute::cpus(3));
  EXPECT_DOUBLE_EQ(moving_mean_after_a_step(strategy), 1.0);
}

TEST(BatchNormInReplicas, OnAControllerTheMovingMeanIsThatOfReplicaZero) {
  distribute::CentralStorageStrategy strategy(distribute::central_cpus(3));
  EXPECT_DOUBLE_EQ(moving_mean_after_a_step(strategy), 0.5);
}

at::Tensor normalized_model(const at::Tensor& images, variables::Mode mode) {
  const auto defaults = layers::arg_scope<layers::batch_norm>({.decay = 0.5, .mode = mode});
  const auto net = layers::conv2d(
      images, 2, 3,
      {.stride = 4, .normalizer = layers::batch_normalizer({.scale = true}), .scope = "conv"});
  return layers::fully_connected(layers::flatten(net), 10, {.activation = nullptr, .scope = "fc"});
}

using NamedValues = std::map<std::string, at::Tensor>;

/// All variables after an epoch, from the values `start` of them.
template <class Model>
NamedValues trained_from(Strategy& strategy, const Model& net, const NamedValues& start) {
  for (const auto& variable : net.variables()) variable.assign(start.at(variable.name()));
  const auto sgd = strategy.optimizer(net, optim::Sgd{.learning_rate = 0.05});
  for (const auto& batch : strategy.distribute(double_examples(kExamples).batch(kGlobalBatch))) {
    strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& local_batch) {
          sgd.minimize(layers::losses::sparse_softmax_cross_entropy(net(local_batch.features),
                                                                    local_batch.labels));
        },
        batch);
  }
  NamedValues end;
  for (const auto& variable : net.variables()) end[variable.name()] = variable.read();
  return end;
}

TEST(FunctionsAsModules, TrainAsTheFunctionDoes) {
  distribute::MirroredStrategy of_function(distribute::cpus(2));
  const auto function = of_function.create(normalized_model, at::ones({1, 1, 28, 28}, at::kDouble));
  NamedValues start;
  for (const auto& variable : function.variables()) start[variable.name()] = variable.read();
  distribute::MirroredStrategy of_module(distribute::cpus(2));
  const auto module = of_module.create([] {
    return std::make_shared<models::FunctionClassifier>("normalized_model", normalized_model,
                                                        at::ones({0, 1, 28, 28}, at::kDouble));
  });
  EXPECT_EQ(module.variables().size(), start.size());
  const auto wanted = trained_from(of_function, function, start);
  const auto found = trained_from(of_module, module, start);
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, value] : wanted) {
    const double traveled = (value - start.at(name)).norm().item<double>();
    EXPECT_GT(traveled, 0.0) << name;
    EXPECT_LE((found.at(name) - value).norm().item<double>(), 1e-12 * traveled) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, FunctionModels,
    ::testing::Values(Case{"Mirrored",
                           [](int replicas) {
                             return std::make_unique<distribute::MirroredStrategy>(
                                 distribute::cpus(replicas));
                           }},
                      Case{"CentralStorage",
                           [](int replicas) {
                             return std::make_unique<distribute::CentralStorageStrategy>(
                                 distribute::central_cpus(replicas));
                           }},
                      Case{"CentralStorageWithCopies",
                           [](int replicas) {
                             return std::make_unique<distribute::CentralStorageStrategy>(
                                 distribute::central_cpus(replicas, variables::Caching::kAlways));
                           }}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace brigade::parity
