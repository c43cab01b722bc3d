#include "brigade/train/model/evaluate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/synthetic.h"

namespace brigade::train {
namespace {

using distribute::cpus;
using distribute::MirroredStrategy;

/// Returns the first features as scores; records whether it was in evaluation mode and whether a
/// graph was built.
struct Scores : torch::nn::Module {
  explicit Scores(std::int64_t the_classes = 3) : classes(the_classes) {
    weight = register_parameter("weight", at::full({}, 1.0));
  }
  at::Tensor forward(const at::Tensor& features) {
    seen_training = seen_training || is_training();
    const at::Tensor scores = features.flatten(1).narrow(1, 0, classes) * weight;
    seen_graph = seen_graph || scores.requires_grad();
    return scores;
  }
  const std::int64_t classes;
  at::Tensor weight;
  bool seen_training = false;
  bool seen_graph = false;
};

EvaluationResult evaluated(int replicas) {
  MirroredStrategy strategy(cpus(replicas));
  const auto model = strategy.create<Scores>();
  const auto batches = input::synthetic(23, {2, 2}, 3).batch(5);
  const EvaluationResult result = evaluate(strategy, model, batches);
  for (int replica = 0; replica < replicas; ++replica) {
    EXPECT_FALSE(model.replica(replica).seen_training);
    EXPECT_FALSE(model.replica(replica).seen_graph);
    EXPECT_TRUE(model.replica(replica).is_training()) << "back in training mode";
  }
  return result;
}

TEST(Evaluate, EveryExampleCountsOnceOnAnyNumberOfReplicas) {
  const EvaluationResult one = evaluated(1);
  EXPECT_EQ(one.examples, 23);
  EXPECT_GT(one.accuracy, 0);
  for (const int replicas : {2, 3, 4}) {
    const EvaluationResult many = evaluated(replicas);
    EXPECT_EQ(many.examples, 23);
    EXPECT_EQ(many.accuracy, one.accuracy);
    EXPECT_EQ(many.top_5_accuracy, 1) << "of three classes";
    EXPECT_NEAR(many.loss, one.loss, 1e-7);
  }
}

TEST(Evaluate, IsTheMeanOverTheExamples) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Scores>();
  const auto examples = input::synthetic(7, {3}, 3);
  double loss = 0;
  std::int64_t right = 0;
  for (const auto& example : examples) {
    const at::Tensor scores = example.features.view({1, 3}).to(at::kDouble);
    loss += (scores.logsumexp(1)[0] - scores[0][example.label]).item<double>() / 7;
    right += scores.argmax(1).item<std::int64_t>() == example.label;
  }
  const EvaluationResult result = evaluate(strategy, model, examples.batch(4));
  EXPECT_NEAR(result.loss, loss, 1e-6);
  EXPECT_DOUBLE_EQ(result.accuracy, static_cast<double>(right) / 7);
}

TEST(Evaluate, CountsTheFiveBestScores) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Scores>(9);
  const auto examples = input::synthetic(31, {9}, 9);
  std::int64_t among = 0;
  for (const auto& example : examples) {
    const at::Tensor best = std::get<1>(example.features.topk(5));
    among += best.eq(example.label).any().item<bool>();
  }
  ASSERT_GT(among, 0);
  ASSERT_LT(among, 31);
  EXPECT_DOUBLE_EQ(evaluate(strategy, model, examples.batch(4)).top_5_accuracy,
                   static_cast<double>(among) / 31);
}

TEST(Evaluate, OfAnEmptyDatasetIsZero) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Scores>();
  const EvaluationResult result =
      evaluate(strategy, model, input::synthetic(4, {3}, 3).take(0).batch(2));
  EXPECT_EQ(result.examples, 0);
  EXPECT_EQ(result.accuracy, 0);
}

TEST(Evaluate, MayBeRepeated) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Scores>();
  const auto batches = input::synthetic(9, {3}, 3).batch(4);
  const EvaluationResult first = evaluate(strategy, model, batches);
  const EvaluationResult second = evaluate(strategy, model, batches);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(second.examples, 9);
}

}  // namespace
}  // namespace brigade::train
