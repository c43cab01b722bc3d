#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/regularizers.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::layers::v1::losses {
namespace {

at::Tensor tensor(std::vector<double> values, std::vector<std::int64_t> shape) {
  return torch::tensor(values, at::kDouble).view(shape);
}
at::Tensor logits() {
  return tensor({1, 2, 0.5, 0.1, -1, 3, 2, 0, -2}, {3, 3});
}
at::Tensor onehot() {
  return tensor({0, 1, 0, 1, 0, 0, 0, 0, 1}, {3, 3});
}
at::Tensor predictions() {
  return tensor({0.2, 0.9, 0.6, 0.1, 0.5, 0.7}, {3, 2});
}
at::Tensor labels() {
  return tensor({0, 1, 1, 1, 0, 0}, {3, 2});
}
const at::Tensor& each() {
  static const at::Tensor weights = tensor({1, 0, 2, 1, 0, 3}, {3, 2});
  return weights;
}
at::Tensor by_example() {
  return tensor({1, 0, 3}, {3, 1});
}

void expect_refused(const std::function<void()>& call, const std::string& part_of_message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

// TensorFlow always computes in float32.
void expect_loss(const at::Tensor& loss, double wanted) {
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_NEAR(loss.item<double>(), wanted, 5e-7);
}

// All numbers are those of tf.compat.v1.losses of TensorFlow 2.21 for the same arguments.
TEST(V1Losses, SoftmaxCrossEntropyIsTensorFlows) {
  const auto weights = tensor({1, 0, 2}, {3});
  expect_loss(softmax_cross_entropy(logits(), onehot()), 2.52602482);
  expect_loss(softmax_cross_entropy(logits(), onehot(), {.weights = weights}), 4.37511587);
  expect_loss(softmax_cross_entropy(logits(), onehot(), {.label_smoothing = 0.1}), 2.46713614);
  expect_loss(softmax_cross_entropy(logits(), onehot(), {.weights = 0.4, .label_smoothing = 0.1}),
              0.98685437);
  expect_loss(softmax_cross_entropy(logits(), onehot(), {.weights = 0.0}), 0.0);
  const at::Tensor mixed = 0.3 * onehot() + 0.7 * onehot().roll(1, 0);
  expect_loss(softmax_cross_entropy(logits(), mixed),
              0.3 * softmax_cross_entropy(logits(), onehot()).item<double>() +
                  0.7 * softmax_cross_entropy(logits(), onehot().roll(1, 0)).item<double>());
  const auto numbers = torch::tensor({1, 0, 2}, at::kLong);
  expect_loss(sparse_softmax_cross_entropy(logits(), numbers), 2.52602482);
  expect_loss(sparse_softmax_cross_entropy(logits(), numbers, {.weights = weights.view({3, 1})}),
              4.37511587);
}

TEST(V1Losses, ReductionsAreTensorFlows) {
  const auto reduce = [](Reduction reduction) {
    return softmax_cross_entropy(logits(), onehot(),
                                 {.weights = tensor({1, 0, 2}, {3}), .reduction = reduction});
  };
  const auto none = reduce(Reduction::kNone);
  EXPECT_NEAR(none[0].item<double>(), 0.46436879, 1e-7);
  EXPECT_EQ(none[1].item<double>(), 0.0);
  EXPECT_NEAR(none[2].item<double>(), 8.28586292, 1e-6);
  expect_loss(reduce(Reduction::kSum), 8.75023174);
  expect_loss(reduce(Reduction::kMean), 2.91674399);
  expect_loss(reduce(Reduction::kSumOverBatchSize), 2.91674399);
  expect_loss(reduce(Reduction::kSumByNonzeroWeights), 4.37511587);
  expect_loss(compute_weighted_loss(labels(), {.weights = 0.0, .reduction = Reduction::kMean}),
              0.0);
  expect_loss(
      compute_weighted_loss(predictions(), {.weights = each(), .reduction = Reduction::kMean}),
      0.51428568);
}

TEST(V1Losses, OfSingleElementsAreTensorFlows) {
  expect_loss(sigmoid_cross_entropy(predictions(), labels()), 0.71640676);
  expect_loss(sigmoid_cross_entropy(predictions(), labels(),
                                    {.weights = by_example(), .label_smoothing = 0.2}),
              1.77027047);
  expect_loss(log_loss(predictions(), labels()), 0.83983880);
  expect_loss(log_loss(predictions(), labels(), {.weights = by_example()}), 1.50496554);
  expect_loss(hinge_loss(predictions() * 3, labels()), 1.31666672);
  expect_loss(hinge_loss(predictions() * 3, labels(), {.weights = each()}), 2.9);
  expect_loss(absolute_difference(predictions(), labels()), 0.46666667);
  expect_loss(absolute_difference(predictions(), labels(), {.weights = each()}), 1.0);
  expect_loss(mean_squared_error(predictions(), labels()), 0.29333332);
  expect_loss(mean_squared_error(predictions(), labels(), {.weights = by_example()}), 0.5675);
  expect_loss(huber_loss(predictions(), labels(), {.delta = 0.5}), 0.13);
  expect_loss(huber_loss(predictions(), labels(), {.weights = each(), .delta = 0.5}), 0.295);
  expect_loss(losses::huber_loss(predictions() * 4, labels()), 1.2166667);
  expect_loss(huber_loss(predictions() * 4, labels(), {}), 1.2166667);  // not at::huber_loss
}

// In a graph; eagerly TensorFlow counts all examples' elements for each example.
TEST(V1Losses, OfVectorsAreTensorFlows) {
  expect_loss(cosine_distance(predictions(), labels(), 1), 0.46666667);
  expect_loss(cosine_distance(predictions(), labels(), 1, {.weights = by_example()}), 1.55);
  expect_loss(mean_pairwise_squared_error(predictions(), labels()), 0.38);
  expect_loss(mean_pairwise_squared_error(predictions(), labels(), {.weights = by_example()}),
              0.20999990);
  expect_loss(mean_pairwise_squared_error(predictions(), labels(), {.weights = 2.0}), 0.76);
}

TEST(V1Losses, OfAnEmptyBatchAreZeroWithZeroGradients) {
  const auto empty = at::zeros({0, 3}, at::kDouble).requires_grad_();
  const auto loss = softmax_cross_entropy(empty * 1.0, at::zeros({0, 3}));
  expect_loss(loss, 0.0);
  EXPECT_NO_THROW(loss.backward());
  const auto zero_weights = predictions().requires_grad_();
  mean_squared_error(zero_weights, labels(), {.weights = at::zeros({3, 2})}).backward();
  EXPECT_EQ(zero_weights.grad().abs().sum().item<double>(), 0.0);
}

TEST(V1Losses, RefuseInvalidArguments) {
  expect_refused([] { mean_squared_error(predictions(), onehot()); }, "[3, 2]");
  expect_refused([] { absolute_difference(predictions(), labels(), {.weights = at::ones({2})}); },
                 "weights have shape [2]");
  expect_refused([] { softmax_cross_entropy(logits(), onehot(), {.label_smoothing = 1.0}); },
                 "label_smoothing is 1");
  expect_refused([] { huber_loss(predictions(), labels(), {.delta = 0.0}); }, "delta is 0");
  expect_refused([] { cosine_distance(predictions(), labels(), 2); }, "no axis 2");
  expect_refused(
      [] { mean_pairwise_squared_error(predictions(), labels(), {.weights = at::ones({3})}); },
      "weights have shape [3]");
}

TEST(LossCollection, HoldsTheLossesOfAScope) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  for (const auto* tower : {"tower_0", "tower_1"}) {
    const auto scope = variables::name_scope(tower);
    mean_squared_error(predictions(), labels());
    softmax_cross_entropy(logits(), onehot(), {.weights = 0.4, .scope = "aux"});
    softmax_cross_entropy(logits(), onehot(), {.collect = false});
  }
  EXPECT_EQ(get_losses().size(), 4u);
  EXPECT_EQ(get_losses("tower_1").size(), 2u);
  EXPECT_EQ(get_losses("tower_1/aux/").size(), 1u);
  add_loss(tensor({1.5}, {}), "mine");
  EXPECT_NEAR(get_losses("mine")[0].item<double>(), 1.5, 0.0);
}

TEST(LossCollection, TotalIsOwnLossesAndAllRegularization) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  variables::get_variable(
      "w", {{2}},
      {.initializer = variables::ones_initializer(), .regularizer = l2_regularizer(0.5)});
  for (const double loss : {1.0, 10.0}) {
    const auto scope = variables::name_scope(loss == 1.0 ? "tower_0" : "tower_1");
    add_loss(at::ones({}) * loss);
  }
  EXPECT_NEAR(get_regularization_loss().item<double>(), 0.5, 1e-7);
  EXPECT_NEAR(get_total_loss().item<double>(), 11.5, 1e-6);
  EXPECT_NEAR(get_total_loss({.scope = "tower_1"}).item<double>(), 10.5, 1e-6);
  EXPECT_NEAR(
      get_total_loss({.add_regularization_losses = false, .scope = "tower_0"}).item<double>(), 1.0,
      1e-7);
}

TEST(LossCollection, AnEmptyCollectionHasNoTotal) {
  EXPECT_THROW(get_losses(), Error);
  variables::Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(get_regularization_loss().item<double>(), 0.0);
  try {
    get_total_loss({.scope = "tower_0"});
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  }
}

}  // namespace

}  // namespace brigade::layers::v1::losses
