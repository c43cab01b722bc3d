#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "brigade/base/error.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/regularizers.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers {
namespace {

at::Tensor sawtooth(std::vector<std::int64_t> shape, std::int64_t count) {
  return (at::arange(count) * 3 % 7 - 3).to(at::kFloat).view(shape);
}

void expect_values(const at::Tensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.numel(), static_cast<std::int64_t>(wanted.size()));
  const auto difference = found.to(at::kDouble).flatten() - torch::tensor(wanted, at::kDouble);
  EXPECT_LT(difference.abs().max().item<double>(), 2e-6) << found;
}

TEST(Flatten, KeepsTheExamplesApart) {
  EXPECT_EQ(layers::flatten(at::ones({2, 3, 4})).sizes(), (std::vector<std::int64_t>{2, 12}));
  EXPECT_THROW(layers::flatten(at::ones({2})), Error);
}

TEST(Pooling, HasSlimsDefaults) {
  const auto images = sawtooth({1, 1, 5, 5}, 25);
  expect_values(layers::max_pool2d(images, 2), {1, 3, 3, 2});
  EXPECT_EQ(layers::avg_pool2d(images, 3).size(2), 2);
  EXPECT_EQ(layers::avg_pool2d(images, 3, {.padding = Padding::kSame}).size(2), 3);
  const auto scope = arg_scope<max_pool2d>({.stride = 1});
  EXPECT_EQ(layers::max_pool2d(images, 2).size(2), 4);
  EXPECT_EQ(layers::max_pool2d(images, 2, {.stride = 3}).size(2), 2);
}

// PyTorch's with count_include_pad False and True.
TEST(Pooling, CountsPaddingIfAsked) {
  const auto images = sawtooth({1, 1, 2, 2}, 4);
  const AvgPoolOptions same{.stride = 1, .padding = Padding::kSame};
  expect_values(layers::avg_pool2d(images, 3, same), {-0.25, -0.25, -0.25, -0.25});
  const auto scope = arg_scope<avg_pool2d>({.count_padding = true});
  expect_values(layers::avg_pool2d(images, 3, same), {-1 / 9.0, -1 / 9.0, -1 / 9.0, -1 / 9.0});
  EXPECT_THROW((void)arg_scope<max_pool2d>({.count_padding = true}), Error);
}

TEST(Pooling, PadsSymmetrically) {
  const auto images = sawtooth({1, 1, 6, 6}, 36);
  const PoolOptions symmetric{.padding = Padding::kSymmetric};
  expect_values(layers::max_pool2d(images, 3, symmetric), {1, 3, 3, 2, 3, 3, 3, 2, 3});
  // Below zero everywhere: padding with zeros would show.
  expect_values(layers::max_pool2d(images - 10, 3, symmetric),
                {-9, -7, -7, -8, -7, -7, -7, -8, -7});
}

TEST(Dropout, KeepsTheFractionAndTheMean) {
  const auto inputs = at::ones({10000});
  const auto dropped = layers::dropout(inputs, {.keep_prob = 0.8});
  EXPECT_NEAR(dropped.mean().item<double>(), 1.0, 0.03);
  EXPECT_NEAR((dropped != 0.0).to(at::kFloat).mean().item<double>(), 0.8, 0.03);
  EXPECT_NEAR((layers::dropout(inputs) != 0.0).to(at::kFloat).mean().item<double>(), 0.5, 0.03);
}

TEST(Dropout, DoesNothingInEvaluation) {
  const auto inputs = at::ones({100});
  EXPECT_TRUE(layers::dropout(inputs, {.mode = variables::Mode::kEvaluation}).is_same(inputs));
  EXPECT_TRUE(layers::dropout(inputs, {.keep_prob = 1.0}).is_same(inputs));
  EXPECT_THROW(layers::dropout(inputs, {.keep_prob = 0.0}), Error);
  EXPECT_THROW(layers::dropout(inputs, {.keep_prob = 1.5}), Error);
}

TEST(Softmax, IsOverTheLastDimension) {
  const auto probabilities = layers::softmax(sawtooth({2, 3, 4}, 24));
  EXPECT_LT((probabilities.sum(-1) - 1.0).abs().max().item<float>(), 1e-6F);
  // Not at::softmax, for which {} would be dimension 0.
  EXPECT_TRUE(softmax(sawtooth({2, 3, 4}, 24), {}).equal(probabilities));
}

TEST(OneHotEncoding, LeavesOutWhatIsNoClass) {
  const auto labels = torch::tensor({1, 0, 5, -1}, at::kInt);
  const auto rows = one_hot_encoding(labels, 3);
  EXPECT_EQ(rows.scalar_type(), at::kFloat);
  expect_values(rows, {0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  expect_values(one_hot_encoding(labels.slice(0, 0, 1), 2, {.on_value = 3.0, .off_value = -1.0}),
                {-1, 3});
  EXPECT_THROW(one_hot_encoding(at::ones({2}), 3), Error);
  EXPECT_THROW(one_hot_encoding(labels, 0), Error);
}

// The numbers of the next two tests are those of tf_slim 1.1 on TensorFlow 2.21.
TEST(UnitNorm, GivesRowsTheLengthOne) {
  expect_values(unit_norm(sawtooth({2, 4}, 8), 1).flatten().slice(0, 0, 6),
                {-0.6882472, 0.0, 0.6882472, -0.2294157, 0.4714046, -0.4714046});
  EXPECT_THROW(unit_norm(at::ones({2, 4}), 2), Error);
}

TEST(LayerNorm, NormalizesEveryExample) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  expect_values(layer_norm(sawtooth({2, 4}, 8)).flatten().slice(0, 0, 6),
                {-1.2701705, 0.1154700, 1.5011106, -0.3464101, 1.2126782, -0.7276069});
  const auto plain = layer_norm(at::ones({2, 4, 3, 3}), {.center = false, .scale = false});
  EXPECT_EQ(plain.abs().max().item<float>(), 0.0F);
  EXPECT_EQ(variables::global_variables().size(), 2u);
}

TEST(BiasAdd, AddsAlongTheChannels) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({2, 3, 2, 2});
  const auto result =
      bias_add(images, {.biases_initializer = variables::constant_initializer(-3.0)});
  EXPECT_TRUE(at::equal(result, images - 3.0)) << "no activation";
  EXPECT_EQ(variables::global_variables()[0].shape(), (std::vector<std::int64_t>{3}));
  const auto none =
      bias_add(images, {.activation = relu, .biases_initializer = variables::Initializer()});
  EXPECT_TRUE(at::equal(none, images));
}

// As given by tf_slim for the same vector.
TEST(Regularizers, AreScaledSums) {
  const auto value = torch::tensor({1.0, -2.0, 3.0}, at::kDouble);
  EXPECT_NEAR(l1_regularizer(0.1)(value).item<double>(), 0.6, 1e-12);
  EXPECT_NEAR(l2_regularizer(0.1)(value).item<double>(), 0.7, 1e-12);
  EXPECT_NEAR(l1_l2_regularizer(0.1, 0.2)(value).item<double>(), 2.0, 1e-12);
  const auto sum = sum_regularizer({l1_regularizer(0.1), nullptr, l2_regularizer(0.1)});
  EXPECT_NEAR(sum(value).item<double>(), 1.3, 1e-12);
}

TEST(Regularizers, OfScaleZeroAreNone) {
  EXPECT_FALSE(l1_regularizer(0.0));
  EXPECT_FALSE(l2_regularizer(0.0));
  EXPECT_FALSE(l1_l2_regularizer(0.0, 0.0));
  EXPECT_FALSE(sum_regularizer({nullptr}));
  EXPECT_THROW(l1_regularizer(-1.0), Error);
  EXPECT_THROW(l2_regularizer(-1.0), Error);
}

}  // namespace
}  // namespace brigade::layers
