#include <ATen/ops/flatten.h>  // without it `flatten` could not be libtorch's
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers::v1 {
namespace {

using variables::Graph;
using variables::Reuse;
using variables::variable_scope;
using Names = std::vector<std::string>;

Names names() {
  Names found;
  for (const auto& variable : variables::global_variables()) found.push_back(variable.name());
  return found;
}

at::Tensor images() {
  return at::ones({1, 3, 10, 10});
}

// The names of this file, and the refused calls, are those of TensorFlow 2.21's tf.layers.
TEST(V1Names, AreTensorFlows) {
  Graph graph;
  const auto opened = graph.as_default();
  auto net = conv2d(images(), 10, 5);
  EXPECT_EQ(net.sizes(), (std::vector<std::int64_t>{1, 10, 6, 6})) << "padding is valid";
  net = v1::flatten(max_pooling2d(net, 2, 2));
  net = dense(dense(net, 3), 3);
  net = batch_normalization(dropout(net));
  const auto scope = variable_scope("t");
  dense(net, 3);
  EXPECT_EQ(names(),
            (Names{"conv2d/kernel", "conv2d/bias", "dense/kernel", "dense/bias", "dense_1/kernel",
                   "dense_1/bias", "batch_normalization/gamma", "batch_normalization/beta",
                   "batch_normalization/moving_mean", "batch_normalization/moving_variance",
                   "t/dense/kernel", "t/dense/bias"}));
}

TEST(V1Names, EmptyBracesAreNoOptionsOfLibtorchsFunctionOfTheSameName) {
  Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(flatten(images(), {}).sizes(), (std::vector<std::int64_t>{1, 300}));
}

TEST(V1Names, NamedAndUnnamedLayersDoNotCollide) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto inputs = at::ones({1, 3});
  dense(inputs, 3, {.name = "foo"});
  dense(inputs, 3);
  dense(inputs, 3, {.name = "dense_2"});
  dense(inputs, 3, {.use_bias = false});
  EXPECT_EQ(names(), (Names{"foo/kernel", "foo/bias", "dense/kernel", "dense/bias",
                            "dense_2/kernel", "dense_2/bias", "dense_1/kernel"}));
}

// The tutorials say that this creates new variables, but TensorFlow restarts counting in a scope
// that is opened again, and reuses.
TEST(V1Names, UnnamedLayersOfAReopenedScopeReuse) {
  Graph graph;
  const auto opened = graph.as_default();
  {
    const auto scope = variable_scope("s");
    conv2d(images(), 10, 5);
    conv2d(images(), 10, 5);
  }
  const auto scope = variable_scope("s", {.reuse = Reuse::kYes});
  conv2d(images(), 10, 5);
  EXPECT_EQ(names(),
            (Names{"s/conv2d/kernel", "s/conv2d/bias", "s/conv2d_1/kernel", "s/conv2d_1/bias"}));
}

// The reason: the scope continues counting.
TEST(V1Names, UnnamedLayersOfAScopeThatIsMadeToReuseAreNotFound) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto scope = variable_scope("s");
  conv2d(images(), 10, 5);
  scope->reuse_variables();
  try {
    conv2d(images(), 10, 5);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("s/conv2d_1/kernel"), std::string::npos)
        << error.what();
  }
}

TEST(V1Layers, HaveNoActivationUnlessGiven) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto minus_one = variables::constant_initializer(-1.0);
  const auto inputs = at::ones({1, 3});
  EXPECT_EQ(dense(inputs, 1, {.kernel_initializer = minus_one}).item<float>(), -3.0F);
  EXPECT_EQ(dense(inputs, 1, {.activation = relu, .kernel_initializer = minus_one}).item<float>(),
            0.0F);
}

TEST(V1Layers, TakeTheScopesInitializer) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto scope = variable_scope("s", {.initializer = variables::ones_initializer()});
  EXPECT_EQ(dense(at::ones({1, 3}), 1).item<float>(), 3.0F);
}

TEST(V1Layers, DropNothingUnlessTraining) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto inputs = at::ones({1000});
  EXPECT_TRUE(dropout(inputs).is_same(inputs));
  const auto dropped = dropout(inputs, {.rate = 0.9, .mode = variables::Mode::kTraining});
  EXPECT_NEAR((dropped != 0.0).to(at::kFloat).mean().item<double>(), 0.1, 0.05);
  for (const double rate : {1.0, 1.5, -0.1}) {
    try {
      dropout(inputs, {.rate = rate});
      ADD_FAILURE() << rate;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("dropout: rate is "), std::string::npos);
    }
  }
  EXPECT_EQ(average_pooling2d(images(), 2, 2, {.padding = Padding::kSame}).size(2), 5);
}

}  // namespace
}  // namespace brigade::layers::v1
