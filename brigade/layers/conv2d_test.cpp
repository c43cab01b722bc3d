#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers {
namespace {

using variables::Graph;
using variables::Initializer;

void expect_refused(const std::function<void()>& call, const std::string& part_of_message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

double total(const at::Tensor& values) {
  return values.sum().item<double>();
}

Initializer given(const at::Tensor& value) {
  return Initializer("given", [value](auto, auto, auto) { return value.clone(); });
}

void expect_near(const at::Tensor& found, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(found.numel(), static_cast<std::int64_t>(wanted.size()));
  const auto difference = found.to(at::kDouble).flatten() - torch::tensor(wanted, at::kDouble);
  EXPECT_LT(difference.abs().max().item<double>(), tolerance) << found;
}

void set(const std::string& name, const std::vector<double>& values) {
  variables::global_variables(name).at(0).assign(torch::tensor(values, at::kFloat));
}

at::Tensor gradient(const std::string& name) {
  return variables::global_variables(name).at(0).component(0).grad();
}

const Initializer kOnes = variables::ones_initializer();
const Initializer kMinusHundred = variables::constant_initializer(-100.0);

TEST(Conv2d, AddsBiasesAndEndsInRelu) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({2, 3, 4, 4}, at::kDouble);
  const auto all = conv2d(images, 5, 3, {.weights_initializer = kOnes});
  EXPECT_EQ(all.sizes(), (std::vector<std::int64_t>{2, 5, 4, 4}));
  EXPECT_EQ(all.scalar_type(), at::kDouble);
  EXPECT_EQ(all[0][0][0][0].item<double>(), 12.0) << "the corner sees 4 of 9";
  EXPECT_EQ(all[0][0][1][1].item<double>(), 27.0);
  const Conv2dOptions cold{.weights_initializer = kOnes, .biases_initializer = kMinusHundred};
  EXPECT_EQ(total(conv2d(images, 5, 3, cold)), 0.0);
  auto linear = cold;
  linear.activation = nullptr;
  EXPECT_EQ(conv2d(images, 5, 3, linear)[0][0][1][1].item<double>(), -73.0);
}

TEST(Conv2d, TakesStrideAndPadding) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({2, 3, 9, 9});
  EXPECT_EQ(conv2d(images, 1, 3, {.stride = 2}).size(2), 5);
  EXPECT_EQ(conv2d(images, 1, 3, {.stride = 2, .padding = Padding::kValid}).size(2), 4);
  EXPECT_EQ(conv2d(images, 1, {1, 7}, {.padding = Padding::kValid}).size(3), 3);
  EXPECT_EQ(conv2d(images, 1, 3, {.padding = Padding::kValid, .rate = 2}).size(2), 5);
}

// PyTorch's conv2d with stride 2 and padding 1; with the larger padding at the bottom and right, as
// in TensorFlow, the windows lie elsewhere.
TEST(Conv2d, PadsSymmetrically) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = (at::arange(36) * 3 % 7 - 3).to(at::kFloat).view({1, 1, 6, 6});
  const auto kernel = (at::arange(9) * 2 % 5 - 1).to(at::kFloat).view({1, 1, 3, 3});
  const Conv2dOptions options{.stride = 2,
                              .padding = Padding::kSymmetric,
                              .activation = nullptr,
                              .weights_initializer = given(kernel)};
  const auto wanted = torch::tensor({-3., 4., 6., -7., 7., 6., 1., -6., 7.}, at::kFloat);
  EXPECT_TRUE(conv2d(images, 1, 3, options).flatten().equal(wanted));
  const auto apart = separable_conv2d(images, std::nullopt, 3,
                                      {.stride = 2,
                                       .padding = Padding::kSymmetric,
                                       .activation = nullptr,
                                       .weights_initializer = given(kernel)});
  EXPECT_TRUE(apart.flatten().equal(wanted));
}

// PyTorch's conv2d with groups=2.
TEST(Conv2d, TakesGroupsOfChannels) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = (at::arange(36) * 3 % 7 - 3).to(at::kFloat).view({1, 4, 3, 3});
  const auto kernel = (at::arange(48) * 2 % 5 - 1).to(at::kFloat).view({6, 2, 2, 2});
  const auto result = conv2d(images, 6, 2,
                             {.padding = Padding::kValid,
                              .groups = 2,
                              .activation = nullptr,
                              .weights_initializer = given(kernel),
                              .scope = "conv"});
  const auto wanted = torch::tensor({8.,  -3., 10., -8., 7.,   4.,  -9.,  9., -9., 11., 2., 1.,
                                     -7., 7.,  0.,  -7., -10., -8., -11., 5., -8., 2.,  8., -3.},
                                    at::kFloat);
  EXPECT_TRUE(result.flatten().equal(wanted)) << result;
  EXPECT_EQ(variables::global_variables("conv/weights")[0].shape(),
            (std::vector<std::int64_t>{6, 2, 2, 2}));
}

// PyTorch's Conv2d without bias, BatchNorm2d with and without weight, and relu, with the gradients
// of the sum of the result times -5, 0, 5, -1, ...
TEST(Conv2d, BatchNormAsNormalizerMayHaveAFactor) {
  const auto images = (at::arange(16) * 3 % 7 - 3).to(at::kFloat).view({2, 2, 2, 2});
  const auto kernel = torch::tensor({1., 2., -1., 3.}, at::kFloat).view({2, 2, 1, 1});
  const auto slopes = (at::arange(16) * 5 % 11 - 5).to(at::kFloat).view({2, 2, 2, 2});
  struct Case {
    bool scale;
    std::vector<double> result, weights_gradient;
  };
  for (const auto& [scale, wanted, wanted_gradient] :
       {Case{true,
             {1.158992, 0, 2.870036, 0, 0.084313, 0, 0, 0, 0, 2.870036, 0, 1.586753, 0, 0, 0, 0},
             {7.24706, -3.62373, -1.12477, -0.37487}},
        Case{false,
             {0.704496, 0, 1.560018, 0, 1.168625, 0, 0, 0, 0, 1.560018, 0, 0.918377, 0, 0, 0, 0},
             {3.62353, -1.81186, -2.24955, -0.74975}}}) {
    Graph graph;
    const auto opened = graph.as_default();
    const Conv2dOptions options{.normalizer = batch_normalizer({.scale = scale}),
                                .weights_initializer = given(kernel),
                                .scope = "conv"};
    conv2d(images, 2, 1, options);
    set("conv/BatchNorm/beta", {0.25, -1.0});
    if (scale) set("conv/BatchNorm/gamma", {2.0, 0.5});
    EXPECT_EQ(variables::trainable_variables().size(), scale ? 3u : 2u) << "no biases";
    auto again = options;
    again.reuse = variables::Reuse::kYes;
    const auto result = conv2d(images, 2, 1, again);
    expect_near(result, wanted, 2e-6);
    (result * slopes).sum().backward();
    expect_near(gradient("conv/weights"), wanted_gradient, 1e-4);
    expect_near(gradient("conv/BatchNorm/beta"), {-9.0, 4.0}, 1e-5);
    if (scale) expect_near(gradient("conv/BatchNorm/gamma"), {-4.30435, 8.6745}, 1e-4);
  }
}

TEST(Conv2d, ANormalizerReplacesBiases) {
  Graph graph;
  const auto opened = graph.as_default();
  const Normalizer twice = [](const at::Tensor& x) { return x * 2.0; };
  const auto result =
      conv2d(at::ones({1, 1, 2, 2}), 1, 1, {.normalizer = twice, .weights_initializer = kOnes});
  EXPECT_EQ(total(result), 8.0);
  EXPECT_EQ(variables::global_variables().size(), 1u);
}

TEST(Conv2d, ReluDoesNotOverwriteTensorsOfANormalizer) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result = conv2d(at::ones({1, 1, 2, 2}), 1, 1,
                             {.normalizer = [](const at::Tensor& x) { return x.tanh(); }});
  EXPECT_NO_THROW(result.sum().backward());
}

TEST(Conv2d, RefusesInvalidArguments) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({1, 1, 2, 2});
  expect_refused([&] { conv2d(images, 0, 1); }, "conv2d: the number of outputs is 0");
  expect_refused([&] { conv2d(images[0], 1, 1); }, "[1, 2, 2]");
  expect_refused([&] { conv2d(images, 1, 3, {.padding = Padding::kValid}); }, "does not fit");
  const auto wide = at::ones({1, 4, 2, 2});
  expect_refused([&] { conv2d(wide, 6, 1, {.groups = 3}); },
                 "groups is 3; expected a number that divides both the channels of the images, 4, "
                 "and the number of outputs, 6");
  expect_refused([&] { conv2d(wide, 6, 1, {.groups = 4}); }, "groups is 4");
  expect_refused([&] { conv2d(wide, 6, 1, {.groups = 0}); }, "groups is 0");
  expect_refused([&] { fully_connected(images.flatten(), 1); }, "at least 2 dimensions");
  expect_refused([&] { separable_conv2d(images, 0, 1); }, "outputs is 0");
}

// The numbers are TensorFlow 2.21's for the same images, kernels, stride 2 and padding SAME.
TEST(SeparableConv2d, FiltersChannelsThenMixesThem) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto first = (at::arange(16) * 3 % 7 - 3).to(at::kFloat).view({1, 1, 4, 4});
  const auto images = at::cat({first, first * -2 + 1}, 1);
  const auto kernel = (at::arange(9) * 2 % 5 - 1).to(at::kFloat).view({1, 1, 3, 3});
  const auto depthwise = at::cat({kernel, kernel + 1, kernel * 2, kernel * 2 + 1}, 0);
  const auto pointwise = (at::arange(12).view({4, 3}).t() - 5).to(at::kFloat).view({3, 4, 1, 1});
  const auto result = separable_conv2d(images, 3, 3,
                                       {.depth_multiplier = 2,
                                        .stride = 2,
                                        .activation = nullptr,
                                        .weights_initializer = given(depthwise),
                                        .pointwise_initializer = given(pointwise)});
  const auto wanted = torch::tensor(
      {-346., 209., -51., -25., -404., 268., -57., -29., -462., 327., -63., -33.}, at::kFloat);
  EXPECT_LT((result.flatten() - wanted).abs().max().item<float>(), 1e-3F) << result;
}

TEST(SeparableConv2d, WithoutOutputsFiltersOnly) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result =
      separable_conv2d(at::ones({1, 2, 4, 4}), std::nullopt, 3, {.depth_multiplier = 3});
  EXPECT_EQ(result.size(1), 6);
  EXPECT_EQ(variables::global_variables().size(), 2u);
}

TEST(FullyConnected, WorksOnTheLastDimension) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result =
      fully_connected(at::ones({2, 5, 4}), 3, {.weights_initializer = kOnes, .scope = "fc"});
  EXPECT_EQ(result.sizes(), (std::vector<std::int64_t>{2, 5, 3}));
  EXPECT_EQ(result[1][4][2].item<float>(), 4.0F);
  EXPECT_EQ(variables::global_variables("fc/weights")[0].shape(),
            (std::vector<std::int64_t>{3, 4}));
}

TEST(FullyConnected, AcceptsEmptyBatches) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto result = fully_connected(at::ones({0, 4}), 3, {.scope = "fc"});
  result.sum().backward();
  const auto gradient = variables::global_variables("fc/weights")[0].component(0).grad();
  ASSERT_TRUE(gradient.defined());
  EXPECT_EQ(total(gradient), 0.0);
}

/// A network's result, and the gradients of its images and variables.
std::vector<at::Tensor> convolutions(std::optional<at::MemoryFormat> format,
                                     const at::Tensor& images) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto formats = arg_scope<conv2d, separable_conv2d>({.memory_format = format});
  const at::Tensor input = images.detach().clone().requires_grad_();
  at::Tensor net = conv2d(input, 4, 3, {.normalizer = batch_normalizer()});
  net = layers::max_pool2d(net, 2);
  net = separable_conv2d(net, 6, {1, 3}, {.stride = 2});
  const bool is_last = net.is_contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(is_last, format == at::MemoryFormat::ChannelsLast) << images.sizes();
  std::vector<at::Tensor> of = {input};
  for (const auto& variable : variables::trainable_variables()) {
    EXPECT_TRUE(
        variable.component(0).is_contiguous(format.value_or(at::MemoryFormat::Contiguous)) ||
        variable.component(0).dim() != 4)
        << variable.name();
    of.push_back(variable.component(0));
  }
  std::vector<at::Tensor> found = torch::autograd::grad({net.square().sum()}, of);
  found.push_back(net);
  found.push_back(layers::flatten(net));
  return found;
}

TEST(Conv2d, GivesTheSameValuesInAnyMemoryFormat) {
  for (const std::int64_t channels : {1, 3}) {
    const at::Tensor images =
        at::arange(2 * channels * 144, at::kDouble).sin().view({2, channels, 12, 12});
    const auto plain = convolutions(std::nullopt, images);
    const auto last = convolutions(at::MemoryFormat::ChannelsLast, images);
    ASSERT_EQ(last.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(last[i].allclose(plain[i], 1e-10, 1e-10)) << channels << " " << i;
  }
}

}  // namespace

}  // namespace brigade::layers
