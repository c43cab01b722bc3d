#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>

#include "brigade/base/ambient.h"
#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/testing/rank_threads.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers {
namespace {

using variables::Graph;
using variables::Mode;
using variables::Reuse;

at::Tensor sawtooth(std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const auto size : shape) count *= size;
  return (at::arange(count) * 3 % 7 - 3).to(at::kFloat).view(shape);
}
// TensorFlow's [2, 2, 2, 2] with the channels last.
at::Tensor images() {
  return sawtooth({2, 2, 2, 2}).permute({0, 3, 1, 2}).contiguous();
}

at::Tensor read(const std::string& name) {
  return variables::global_variables(name).at(0).read();
}

void expect_values(const at::Tensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.numel(), static_cast<std::int64_t>(wanted.size()));
  const auto difference = found.to(at::kDouble).flatten() - torch::tensor(wanted, at::kDouble);
  EXPECT_LT(difference.abs().max().item<double>(), 2e-6) << found;
}

// The numbers of the next tests are those of TensorFlow 2.21 with tf_slim 1.1.
TEST(BatchNorm, NormalizesByTheBatchAndMovesItsStatisticsWithTheUpdate) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result = batch_norm(images(), {.decay = 0.9});
  expect_values(result.permute({0, 2, 3, 1}).flatten().slice(0, 0, 6),
                {-1.2394526, 0.0, 1.5935820, -0.5344462, 1.1214095, -1.0688924});
  expect_values(read("BatchNorm/moving_mean"), {0.0, 0.0});
  graph.run_update_ops();
  expect_values(read("BatchNorm/moving_mean"), {-0.0375, 0.0});
  expect_values(read("BatchNorm/moving_variance"), {1.4125001, 1.3000001});
  EXPECT_TRUE(graph.update_ops().empty());
}

TEST(BatchNorm, WithThreeDimensionsFollowsTheBiasedVariance) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(sawtooth({4, 3, 2}).permute({0, 2, 1}), {.decay = 0.9});
  graph.run_update_ops();
  expect_values(read("BatchNorm/moving_mean"), {0.025, -0.025});
  expect_values(read("BatchNorm/moving_variance"), {1.3187500, 1.3187500});
}

TEST(BatchNorm, OfOneValueHasNoVariance) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result = batch_norm(sawtooth({1, 2, 1, 1}), {.decay = 0.9});
  graph.run_update_ops();
  EXPECT_LT(result.abs().max().item<float>(), 1e-5F);
  expect_values(read("BatchNorm/moving_mean"), {-0.3, 0.0});
  expect_values(read("BatchNorm/moving_variance"), {0.9, 0.9});
}

TEST(BatchNorm, HasAGradientForInputsOfAnyDimensions) {
  for (const auto& shape : {std::vector<std::int64_t>{4, 2}, {4, 2, 3}, {2, 2, 2, 2}, {1, 2}}) {
    Graph graph;
    const auto opened = graph.as_default();
    const auto x = sawtooth(shape).set_requires_grad(true);
    v1::batch_normalization(x, {.mode = Mode::kTraining}).square().sum().backward();
    batch_norm(x, {.updates = StatisticsUpdate::kInPlace}).square().sum().backward();
    EXPECT_TRUE(x.grad().defined());
  }
}

TEST(BatchNorm, CanMoveItsStatisticsInPlace) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(images(), {.decay = 0.9, .updates = StatisticsUpdate::kInPlace});
  EXPECT_TRUE(graph.update_ops().empty());
  expect_values(read("BatchNorm/moving_mean"), {-0.0375, 0.0});
}

TEST(BatchNorm, EvaluatesByTheMovingStatistics) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(images(), {.updates = StatisticsUpdate::kInPlace, .scope = "bn"});
  const auto result =
      batch_norm(images(), {.mode = Mode::kEvaluation, .reuse = Reuse::kYes, .scope = "bn"});
  const auto mean = read("bn/moving_mean").view({1, 2, 1, 1});
  const auto variance = read("bn/moving_variance").view({1, 2, 1, 1});
  EXPECT_TRUE(at::allclose(result, (images() - mean) / (variance + 0.001).sqrt(), 1e-5, 1e-6));
  EXPECT_TRUE(graph.update_ops().empty());
}

TEST(BatchNorm, AnEmptyBatchDoesNotChangeTheStatistics) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result = batch_norm(images().slice(0, 0, 0), {.scope = "bn"});
  EXPECT_EQ(result.numel(), 0);
  EXPECT_TRUE(graph.update_ops().empty());
  result.sum().backward();
  EXPECT_EQ(read("bn/moving_mean").abs().sum().item<float>(), 0.0F);
}

TEST(BatchNorm, HasAnOffsetAndAFactorIfRequested) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto plain = batch_norm(images(), {.center = false, .scope = "plain"});
  EXPECT_TRUE(variables::trainable_variables().empty());
  const auto full = batch_norm(images(), {.scale = true, .scope = "full"});
  ASSERT_EQ(variables::trainable_variables().size(), 2u);
  EXPECT_TRUE(at::allclose(plain, full));
  variables::global_variables("full/gamma")[0].assign(at::ones({2}) * 3.0);
  variables::global_variables("full/beta")[0].assign(at::ones({2}));
  const auto changed = batch_norm(images(), {.scale = true, .reuse = Reuse::kYes, .scope = "full"});
  EXPECT_TRUE(at::allclose(changed, plain * 3.0 + 1.0, 1e-5, 1e-6));
}

TEST(BatchNorm, StatisticsAreEachReplicasOwn) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(images());
  const auto statistic = variables::global_variables("BatchNorm/moving_mean").at(0);
  EXPECT_EQ(statistic.synchronization(), variables::Synchronization::kOnRead);
  EXPECT_EQ(statistic.aggregation(), variables::Aggregation::kMean);
  EXPECT_FALSE(statistic.trainable());
}

TEST(BatchNorm, RefusesInvalidArguments) {
  Graph graph;
  const auto opened = graph.as_default();
  EXPECT_THROW(batch_norm(at::ones({3})), Error);
  EXPECT_THROW(batch_norm(images(), {.decay = 1.5}), Error);
}

/// The results of a training pass.
struct Pass {
  at::Tensor result, mean, variance;
};

Pass pass_over(const at::Tensor& inputs, comm::Communicator* ranks = nullptr) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(inputs, {.mode = Mode::kEvaluation, .scope = "bn"});  // creates the variables
  const comm::Replica replica{.communicator = ranks};
  const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot,
                                                      ranks == nullptr ? nullptr : &replica);
  Pass pass;
  pass.result = batch_norm(inputs, {.decay = 0.9,
                                    .updates = StatisticsUpdate::kInPlace,
                                    .statistics = BatchStatistics::kGlobal,
                                    .reuse = Reuse::kYes,
                                    .scope = "bn"});
  pass.mean = read("bn/moving_mean");
  pass.variance = read("bn/moving_variance");
  return pass;
}

/// Runs the pass of each of several ranks on its part of `inputs`.
std::vector<Pass> passes_over(const at::Tensor& inputs, const std::vector<std::int64_t>& sizes) {
  std::vector<Pass> passes(sizes.size());
  comm::run_ranks_successfully(static_cast<int>(sizes.size()), [&](comm::Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const auto begin =
        std::accumulate(sizes.begin(), sizes.begin() + ranks.rank(), std::int64_t{0});
    passes[rank] = pass_over(inputs.narrow(0, begin, sizes[rank]), &ranks);
  });
  return passes;
}

// Inputs of three dimensions follow another variance than those of two and four.
TEST(BatchNorm, WithGlobalStatisticsEveryRankEqualsTheWholeBatch) {
  for (const at::Tensor& like :
       {sawtooth({6, 2}), sawtooth({6, 2, 3}), sawtooth({6, 2, 3, 2}), sawtooth({1, 2})}) {
    const at::Tensor inputs = like.to(at::kDouble) + 50.0;
    const Pass whole = pass_over(inputs);
    const std::int64_t count = inputs.size(0);
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{count, 0}, {count - 1, 1}, {count / 2, 0, count - count / 2}}) {
      const std::vector<Pass> ranks = passes_over(inputs, sizes);
      std::vector<at::Tensor> results;
      for (const Pass& rank : ranks) {
        results.push_back(rank.result);
        EXPECT_TRUE(at::allclose(rank.mean, whole.mean, 1e-12, 1e-12)) << rank.mean << whole.mean;
        EXPECT_TRUE(at::allclose(rank.variance, whole.variance, 1e-12, 1e-12));
        EXPECT_TRUE(at::equal(rank.mean, ranks[0].mean) &&
                    at::equal(rank.variance, ranks[0].variance));
      }
      EXPECT_TRUE(at::allclose(at::cat(results), whole.result, 1e-11, 1e-11));
    }
  }
}

TEST(BatchNorm, AnEmptyGlobalBatchDoesNotChangeTheStatistics) {
  for (const Pass& rank : passes_over(sawtooth({0, 2}), {0, 0}))
    EXPECT_TRUE(at::equal(rank.variance, at::ones({2})));
}

TEST(BatchNorm, GammaBeginsAtOneOrAsItsInitializerSays) {
  Graph graph;
  const auto opened = graph.as_default();
  batch_norm(images(), {.scale = true, .scope = "a"});
  batch_norm(images(),
             {.scale = true, .gamma_initializer = variables::zeros_initializer(), .scope = "b"});
  EXPECT_EQ(read("a/gamma").min().item<double>(), 1.0);
  EXPECT_EQ(read("b/gamma").abs().max().item<double>(), 0.0);
}

TEST(BatchNorm, WithGlobalStatisticsEvaluationIsNotCollective) {
  comm::run_ranks_successfully(2, [](comm::Communicator& ranks) {
    if (ranks.rank() == 1) return;  // a collective of the other rank would hang
    Graph graph;
    const auto opened = graph.as_default();
    const BatchNormOptions options{.statistics = BatchStatistics::kGlobal,
                                   .mode = Mode::kEvaluation,
                                   .reuse = Reuse::kAuto,
                                   .scope = "bn"};
    const auto alone = batch_norm(images(), options);
    const comm::Replica replica{.communicator = &ranks};
    const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot, &replica);
    EXPECT_TRUE(at::equal(batch_norm(images(), options), alone));
  });
}

TEST(BatchNormalization, HasTheDefaultsOfTfLayers) {
  Graph graph;
  const auto opened = graph.as_default();
  v1::batch_normalization(images(), {.momentum = 0.9, .mode = Mode::kTraining, .name = "four"});
  v1::batch_normalization(sawtooth({4, 2}),
                          {.momentum = 0.9, .mode = Mode::kTraining, .name = "two"});
  graph.run_update_ops();
  EXPECT_EQ(variables::trainable_variables("four/").size(), 2u);
  expect_values(read("four/moving_variance"), {1.4125001, 1.3000001});
  expect_values(read("two/moving_mean"), {0.075, -0.15});
  expect_values(read("two/moving_variance"), {1.4187500, 1.0250000});
  const auto untouched = v1::batch_normalization(sawtooth({4, 2}), {.epsilon = 0.0});
  EXPECT_TRUE(at::allclose(untouched, sawtooth({4, 2}))) << "evaluation is the default";
}

}  // namespace

}  // namespace brigade::layers
