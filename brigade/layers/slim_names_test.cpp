#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/device/device_scope.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/regularizers.h"
#include "brigade/layers/repeat_layers.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers {
namespace {

using variables::Graph;
using variables::Reuse;
using variables::variable_scope;
using Names = std::vector<std::string>;

Names names_of(const std::vector<variables::Variable>& variables) {
  Names names;
  for (const auto& variable : variables) names.push_back(variable.name());
  return names;
}
Names names_of(const EndPoints& points) {
  Names names;
  for (const auto& point : points) names.push_back(point.name);
  return names;
}

at::Tensor images() {
  return at::ones({1, 3, 10, 10});
}

// The names of this file are what TensorFlow 2.21 with tf_slim 1.1 gave for the same calls.
TEST(SlimNames, AreTensorFlowsWithDefaultNames) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto convolutions =
      arg_scope<conv2d>({.normalizer = batch_normalizer(), .outputs_collections = {"ends"}});
  const auto others =
      arg_scope<max_pool2d, avg_pool2d, fully_connected, dropout, flatten, separable_conv2d>(
          {.outputs_collections = {"ends"}});
  const auto tower = variable_scope("tower");
  auto net = conv2d(images(), 8, 3);
  net = conv2d(net, 8, 3, {.scope = "c2"});
  net = separable_conv2d(net, 8, 3);
  net = layers::max_pool2d(net, 2);
  net = layers::max_pool2d(net, 2, {.scope = "p2"});
  net = layers::avg_pool2d(net, 1, {.stride = 1});
  net = layers::flatten(net);
  net = fully_connected(net, 4);
  net = layers::dropout(net);
  net = fully_connected(net, 4, {.activation = nullptr});
  net = layers::softmax(net);
  EXPECT_EQ(names_of(variables::global_variables()),
            (Names{"tower/Conv/weights", "tower/Conv/BatchNorm/beta",
                   "tower/Conv/BatchNorm/moving_mean", "tower/Conv/BatchNorm/moving_variance",
                   "tower/c2/weights", "tower/c2/BatchNorm/beta", "tower/c2/BatchNorm/moving_mean",
                   "tower/c2/BatchNorm/moving_variance", "tower/SeparableConv2d/depthwise_weights",
                   "tower/SeparableConv2d/pointwise_weights", "tower/SeparableConv2d/biases",
                   "tower/fully_connected/weights", "tower/fully_connected/biases",
                   "tower/fully_connected_1/weights", "tower/fully_connected_1/biases"}));
  EXPECT_EQ(names_of(variables::get_model_variables()), names_of(variables::global_variables()));
  EXPECT_EQ(names_of(end_points("ends")),
            (Names{"tower/Conv", "tower/c2", "tower/SeparableConv2d", "tower/MaxPool2D", "tower/p2",
                   "tower/AvgPool2D", "tower/Flatten", "tower/fully_connected", "tower/Dropout",
                   "tower/fully_connected_1"}));
  EXPECT_EQ(end_points("ends").at("tower/p2").sizes(), (std::vector<std::int64_t>{1, 8, 2, 2}));
  Names updates;
  for (const auto& op : graph.update_ops()) updates.push_back(op.name);
  EXPECT_EQ(updates,
            (Names{"tower/Conv/BatchNorm/AssignMovingAvg", "tower/Conv/BatchNorm/AssignMovingAvg_1",
                   "tower/c2/BatchNorm/AssignMovingAvg", "tower/c2/BatchNorm/AssignMovingAvg_1"}));
}

TEST(SlimNames, OfRepeatedLayersCount) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto convolution = [](const at::Tensor& x, const std::string& scope) {
    return conv2d(x, 8, 3, {.scope = scope});
  };
  const auto dense = [](const at::Tensor& x, int units, const std::string& scope) {
    return fully_connected(x, units, {.scope = scope});
  };
  auto net = repeat(images(), 3, convolution, {.scope = "conv"});
  net = stack(layers::flatten(net), std::vector{3, 4}, dense, {.scope = "fc"});
  net = stack(net, std::vector{5}, dense);
  net = layer_norm(net);
  net = bias_add(net);
  EXPECT_EQ(net.sizes(), (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(
      names_of(variables::trainable_variables()),
      (Names{"conv/conv_1/weights", "conv/conv_1/biases", "conv/conv_2/weights",
             "conv/conv_2/biases", "conv/conv_3/weights", "conv/conv_3/biases", "fc/fc_1/weights",
             "fc/fc_1/biases", "fc/fc_2/weights", "fc/fc_2/biases", "Stack/stack_1/weights",
             "Stack/stack_1/biases", "LayerNorm/beta", "LayerNorm/gamma", "BiasAdd/biases"}));
  EXPECT_THROW(repeat(net, -1, convolution), Error);
}

TEST(SlimNames, ASecondTowerFindsTheFirstOnesVariables) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto model = [](Reuse reuse) {
    const auto scope = variable_scope("model", {.reuse = reuse});
    return conv2d(conv2d(images(), 4, 3), 4, 3, {.outputs_collections = {"ends"}});
  };
  const auto first = model(Reuse::kInherit);
  const auto second = model(Reuse::kYes);
  EXPECT_TRUE(at::equal(first, second));
  EXPECT_EQ(variables::global_variables().size(), 4u);
  EXPECT_EQ(names_of(end_points("ends")), (Names{"model/Conv_1", "model_1/Conv_1"}));
}

TEST(SlimNames, ALayerCanReuseByNameAndByCapturedScope) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto first = conv2d(images(), 4, 3, {.scope = "a"});
  EXPECT_TRUE(at::equal(conv2d(images(), 4, 3, {.reuse = Reuse::kYes, .scope = "a"}), first));
  EXPECT_THROW(conv2d(images(), 4, 3, {.scope = "a"}), Error);
  const auto captured = [] {
    const auto scope = variable_scope("a", {.reuse = Reuse::kYes});
    return scope.scope();
  }();
  EXPECT_TRUE(at::equal(conv2d(images(), 4, 3, {.scope = captured}), first));
  EXPECT_EQ(variables::global_variables().size(), 2u);
  EXPECT_THROW(conv2d(images(), 4, 3, {.reuse = Reuse::kYes}), Error) << "which one?";
}

TEST(SlimNames, DeviceScopesAreAskedForLayersAndVariables) {
  Graph graph;
  const auto opened = graph.as_default();
  Names asked;
  const auto devices = device::with_device([&](const device::PlacementRequest& request) {
    asked.push_back(request.name);
    return std::string();
  });
  fully_connected(layers::flatten(images()), 2, {.scope = "fc"});
  EXPECT_EQ(asked, (Names{"Flatten/Reshape", "fc/MatMul", "fc/weights", "fc/biases"}));
}

TEST(SlimNames, RegularizersAndCollectionsBelongToTheVariable) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto defaults =
      arg_scope<conv2d, fully_connected>({.weights_initializer = variables::ones_initializer(),
                                          .weights_regularizer = l2_regularizer(0.5),
                                          .variables_collections = {"mine"}});
  const auto net = conv2d(images(), 2, 1, {.trainable = false, .scope = "a"});
  fully_connected(layers::flatten(net), 2,
                  {.biases_initializer = variables::Initializer(), .scope = "b"});
  const auto losses = variables::get_regularization_losses();
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses[0].item<double>(), 0.25 * 6, 1e-6);
  EXPECT_NEAR(losses[1].item<double>(), 0.25 * 400, 1e-4);
  EXPECT_EQ(names_of(variables::get_variables("mine")),
            (Names{"a/weights", "a/biases", "b/weights"}));
  EXPECT_EQ(names_of(variables::trainable_variables()), (Names{"b/weights"}));
}

TEST(EndPoints, KeepTheLastOfAName) {
  EndPoints points;
  points.set("a", at::ones({1}));
  points.set("b", at::ones({2}));
  points.set("a", at::ones({3}));
  EXPECT_EQ(names_of(points), (Names{"a", "b"}));
  EXPECT_EQ(points.at("a").numel(), 3);
  EXPECT_TRUE(points.contains("b"));
  EXPECT_FALSE(points.contains("c"));
  try {
    points.at("c");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "There is no end point 'c'; there are: a, b");
  }
}

TEST(Layers, NeedAGraphIfTheyHaveVariables) {
  EXPECT_THROW(conv2d(images(), 4, 3), Error);
  EXPECT_EQ(layers::max_pool2d(images(), 2).size(2), 5) << "others do not";
}

}  // namespace
}  // namespace brigade::layers
