#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

using variables::Mode;

Sequential small_net(SequentialOptions options = {}) {
  return Sequential({Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
                     Conv2D{.filters = 8, .kernel_size = 3, .padding = layers::Padding::kSame},
                     BatchNormalization{}, Activation{.activation = "tanh"}, AveragePooling2D{},
                     Flatten{}, Dropout{.rate = 0.5}, Dense{.units = 10}, Softmax{}},
                    std::move(options));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Sequential, NamesLayersAndVariablesAsKeras) {
  const Sequential net = small_net();
  EXPECT_EQ(net.names(),
            (std::vector<std::string>{"conv2d", "max_pooling2d", "conv2d_1", "batch_normalization",
                                      "activation", "average_pooling2d", "flatten", "dropout",
                                      "dense", "softmax"}));
  variables::Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(net(at::rand({2, 1, 28, 28}), Mode::kTraining).sizes(),
            (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(variable_names(),
            (std::vector<std::string>{"conv2d/kernel", "conv2d/bias", "conv2d_1/kernel",
                                      "conv2d_1/bias", "batch_normalization/gamma",
                                      "batch_normalization/beta", "batch_normalization/moving_mean",
                                      "batch_normalization/moving_variance", "dense/kernel",
                                      "dense/bias"}));
}

// The numbers are from Keras, for the same layers on (28, 28, 1).
TEST(Sequential, SummaryMatchesKeras) {
  const std::string text = small_net({.input_shape = {{1, 28, 28}}}).summary();
  for (const char* part : {"Model: \"sequential\"", " conv2d (Conv2D)", "(None, 32, 26, 26)", "320",
                           "(None, 32, 13, 13)", "2312", "batch_normalization (BatchNormalization)",
                           "32", "(None, 288)", "2890", "Total params: 5554",
                           "Trainable params: 5538", "Non-trainable params: 16"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Sequential, SummaryCountsTheCreatedParameters) {
  const Sequential net = small_net();
  variables::Graph graph;
  const auto opened = graph.as_default();
  net(at::rand({2, 1, 28, 28}), Mode::kTraining);
  std::int64_t made = 0;
  for (const auto& variable : variables::global_variables()) made += variable.numel();
  EXPECT_EQ(made, 5554);
}

struct FusedCase {
  layers::Padding padding;
  std::int64_t side;
};
class SequentialFused : public ::testing::TestWithParam<FusedCase> {};

TEST_P(SequentialFused, FusedConvolutionAndPoolingEqualSeparateOnes) {
  const auto [padding, side] = GetParam();
  const Sequential net({Conv2D{.filters = 4,
                               .kernel_size = 3,
                               .padding = padding,
                               .activation = "relu",
                               .bias_initializer = variables::constant_initializer(0.1)},
                        MaxPooling2D{}});
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor images = at::rand({3, 2, side, side}, at::kDouble) - 0.5;
  const at::Tensor fused = net(images, Mode::kTraining);
  const at::Tensor apart = at::max_pool2d(
      at::relu(layers::v1::conv2d(
          images, 4, 3, {.padding = padding, .name = "conv2d", .reuse = variables::Reuse::kYes})),
      2, 2);
  EXPECT_TRUE(at::allclose(fused, apart, 1e-12, 1e-12));
  EXPECT_EQ(net.output_shape({2, side, side}),
            ExampleShape(fused.sizes().begin() + 1, fused.sizes().end()));
}
INSTANTIATE_TEST_SUITE_P(Paddings, SequentialFused,
                         ::testing::Values(FusedCase{layers::Padding::kSame, 20},
                                           FusedCase{layers::Padding::kValid, 20},
                                           FusedCase{layers::Padding::kSame, 9},
                                           FusedCase{layers::Padding::kValid, 9}));

// The count is from Keras.
TEST(Sequential, AConvolutionMayHaveGroups) {
  const Sequential net(
      {Conv2D{.filters = 6, .kernel_size = 3, .groups = 2, .activation = "relu"}, MaxPooling2D{}});
  EXPECT_NE(net.summary({{4, 6, 6}}).find("Total params: 114"), std::string::npos);
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor images = at::rand({2, 4, 6, 6}, at::kDouble) - 0.5;
  const at::Tensor result = net(images, Mode::kTraining);
  const at::Tensor kernel = variables::global_variables().at(0).read();
  EXPECT_EQ(kernel.sizes(), (std::vector<std::int64_t>{6, 2, 3, 3}));
  const at::Tensor apart = at::cat({at::conv2d(images.narrow(1, 0, 2), kernel.narrow(0, 0, 3)),
                                    at::conv2d(images.narrow(1, 2, 2), kernel.narrow(0, 3, 3))},
                                   1);
  EXPECT_TRUE(at::allclose(result, at::max_pool2d(at::relu(apart), 2, 2), 1e-12, 1e-12));
}

TEST(Sequential, ASymmetricPaddingIsInTheSummary) {
  const layers::Padding symmetric = layers::Padding::kSymmetric;
  const Sequential net({Conv2D{.filters = 2, .kernel_size = 5, .strides = 2, .padding = symmetric},
                        MaxPooling2D{.pool_size = 3, .strides = 2, .padding = symmetric}});
  EXPECT_EQ(net.output_shape({1, 9, 8}), (ExampleShape{2, 3, 2}));
  variables::Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(net(at::rand({1, 1, 9, 8}), Mode::kTraining).sizes(),
            (std::vector<std::int64_t>{1, 2, 3, 2}));
}

TEST(Sequential, DropoutIsForTrainingOnly) {
  const Sequential net({Dropout{.rate = 0.9}});
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = at::rand({8, 16}) + 1;
  EXPECT_TRUE(at::equal(net(x, Mode::kEvaluation), x));
  EXPECT_FALSE(at::equal(net(x, Mode::kTraining), x));
}

TEST(Sequential, AGivenNameIsKeptAndDefaultNamesAvoidIt) {
  const Sequential net({Dense{.units = 1}, Dense{.units = 1, .name = "dense"}});
  EXPECT_EQ(net.names(), (std::vector<std::string>{"dense_1", "dense"}));
}

TEST(Sequential, RefusesInvalidLayersWithTheirNames) {
  const SequentialOptions image{.input_shape = {{1, 5, 5}}};
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[] { Sequential({}); }, "at least one layer"},
      {[] {
         Sequential({Dense{.units = 1, .name = "a"}, Dense{.units = 1, .name = "a"}});
       },
       "Two layers are called 'a'"},
      {[] { (void)Dense{.units = 1, .activation = "rellu"}; }, "did you mean 'relu'?"},
      {[&] { Sequential({Dense{}}, image); }, "Layer dense: units is 0"},
      {[&] { Sequential({Conv2D{.filters = 1, .kernel_size = 7}}, image); },
       "Layer conv2d: its window of 7x7 does not fit into its input (None, 1, 5, 5)"},
      {[&] {
         Sequential({Flatten{}, MaxPooling2D{}}, image);
       },
       "Layer max_pooling2d: its input is (None, 25) and must be images"},
      {[&] { Sequential({Dropout{.rate = 1.0}}, image); }, "rate is 1"},
      {[&] { Sequential({Conv2D{.filters = 4, .kernel_size = 1, .groups = 2}}, image); },
       "groups is 2 and must divide both the channels of its input, 1, and filters, 4"},
      {[] { Sequential({Dense{.units = 1}}).summary(); }, "shapes are not known"},
      {[&] {
         Sequential({Flatten{}}, image)(at::rand({2, 1, 6, 5}), Mode::kTraining);
       },
       "the inputs are (None, 1, 6, 5), but its input_shape says (None, 1, 5, 5)"},
      {[] {
         Sequential({Flatten{}})(at::rand({2, 3}).to(at::kByte), Mode::kTraining);
       },
       "floating"},
  };
  for (const auto& [call, part] : cases) {
    const std::string message = message_of(call);
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
}

TEST(Sequential, GivesTheSameValuesInAnyMemoryFormat) {
  const at::Tensor images = at::rand({4, 1, 28, 28}, at::kDouble);
  std::vector<at::Tensor> results;
  std::vector<std::vector<std::string>> names;
  for (const SequentialOptions& options :
       {SequentialOptions{}, SequentialOptions{.memory_format = at::MemoryFormat::ChannelsLast}}) {
    variables::Graph graph;
    const auto opened = graph.as_default();
    const Sequential net({Conv2D{.filters = 4, .kernel_size = 3, .activation = "relu"},
                          MaxPooling2D{}, Conv2D{.filters = 8, .kernel_size = 3}, Flatten{}},
                         options);
    results.push_back(net(images, Mode::kTraining));
    names.push_back(variable_names());
    const variables::Variable second = *graph.store().find("conv2d_1/kernel");
    EXPECT_EQ(second.memory_format(), options.memory_format.value_or(at::MemoryFormat::Contiguous));
  }
  EXPECT_TRUE(at::allclose(results[1], results[0], 1e-12, 1e-12));
  EXPECT_EQ(names[1], names[0]);
}

TEST(Sequential, RecomputesGroupsOfLayers) {
  const at::Tensor images = at::rand({4, 1, 28, 28}).requires_grad_();
  int calls = 0;
  const auto counted = [&](const at::Tensor& x) {
    ++calls;
    return x * 2;
  };
  const Sequential net({Activation{.activation = counted}, Activation{.activation = counted},
                        Activation{.activation = counted}, Flatten{}, Dense{.units = 2}});
  for (const auto& [every, expected] :
       std::vector<std::pair<int, int>>{{0, 3}, {1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 3}, {9, 3}}) {
    variables::Graph graph;
    const auto opened = graph.as_default();
    calls = 0;
    net.recompute_every(every)(images, Mode::kTraining).sum().backward();
    EXPECT_EQ(calls, expected) << every;
  }
  EXPECT_NE(message_of([&] { net.recompute_every(-1); }).find("recompute_every is -1"),
            std::string::npos);
}

TEST(Sequential, AddsTheEndPointsThatItIsAskedFor) {
  const std::vector<Layer> layers = {Conv2D{.filters = 4, .kernel_size = 3, .activation = "relu"},
                                     MaxPooling2D{}, Flatten{}, Dense{.units = 2}};
  const at::Tensor images = at::rand({2, 1, 8, 8});
  variables::Graph graph;
  const auto opened = graph.as_default();
  Sequential(layers, {.end_points = {"conv2d", "dense"}})(images, Mode::kEvaluation);
  const auto points = layers::end_points(layers::kEndPoints);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points.at("conv2d").sizes(), (std::vector<std::int64_t>{2, 4, 6, 6}))
      << "a convolution that is an end point is not fused with the pooling";
  EXPECT_EQ(points.at("dense").sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_NE(message_of([&] {
              Sequential(layers, {.end_points = {"conv2"}});
            }).find("did you mean 'conv2d'?"),
            std::string::npos);
}

}  // namespace

}  // namespace brigade::models
