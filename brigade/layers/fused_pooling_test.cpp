#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <limits>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/fused_pooling.h"

namespace brigade::layers {
namespace {

struct Inputs {
  at::Tensor images, weight, bias;
  std::vector<at::Tensor> all() const { return {images, weight, bias}; }
};

Inputs inputs(std::int64_t examples, at::ScalarType type, std::int64_t side = 28) {
  at::set_num_threads(1);
  torch::manual_seed(11);
  return {torch::rand({examples, 3, side, side}, type).requires_grad_(),
          torch::randn({16, 3, 5, 5}, type).requires_grad_(),
          torch::randn({16}, type).requires_grad_()};
}

at::Tensor plain(const at::Tensor& images, const at::Tensor& weight, const at::Tensor& bias) {
  return at::max_pool2d(at::relu(at::conv2d(images, weight, bias, 1, 2)), 2);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// 100 examples are three pieces of unequal size in float32, five in float64.
TEST(ConvPoolRelu, EqualsTheSeparateOperationsInValueAndGradient) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t examples : {1, 100}) {
      const auto in = inputs(examples, type);
      const auto tolerance = type == at::kDouble ? 1e-14 : 1e-5;
      const auto ours = conv_pool_relu(in.images, in.weight, in.bias);
      const auto theirs = plain(in.images, in.weight, in.bias);
      EXPECT_LT(difference(ours, theirs), tolerance) << type << " " << examples;
      const auto weights = torch::randn_like(ours);
      const auto got = torch::autograd::grad({ours}, in.all(), {weights});
      const auto expected = torch::autograd::grad({theirs}, in.all(), {weights});
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LT(difference(got[i], expected[i]), tolerance)
            << type << " " << examples << " " << i;
      }
    }
  }
}

TEST(ConvPoolRelu, ComputesOnlyTheRequestedGradients) {
  const auto in = inputs(4, at::kFloat);
  const auto images = in.images.detach(), weight = in.weight.detach();
  conv_pool_relu(images, weight, in.bias).sum().backward();
  EXPECT_TRUE(in.bias.grad().defined());
  EXPECT_FALSE(conv_pool_relu(images, weight, in.bias.detach()).requires_grad());
}

TEST(ConvPoolRelu, DetectsAWeightThatChangedBeforeBackward) {
  const auto in = inputs(2, at::kFloat);
  const auto out = conv_pool_relu(in.images, in.weight, in.bias).sum();
  {
    torch::NoGradGuard guard;
    in.weight.add_(1);
  }
  EXPECT_ANY_THROW(out.backward());
}

TEST(ConvPoolRelu, SupportsInputsWithoutAKernel) {
  const auto in = inputs(2, at::kFloat, 7);  // odd sides
  EXPECT_LT(difference(conv_pool_relu(in.images, in.weight, in.bias),
                       plain(in.images, in.weight, in.bias)),
            1e-6);
  const auto none = inputs(0, at::kFloat);
  const auto out = conv_pool_relu(none.images, none.weight, none.bias);
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{0, 16, 14, 14}));
  out.sum().backward();
  EXPECT_EQ(none.weight.grad().abs().sum().item<float>(), 0.0F);
}

TEST(ConvPoolRelu, RefusesInvalidShapes) {
  const auto in = inputs(2, at::kFloat);
  EXPECT_THROW(conv_pool_relu(in.images[0], in.weight, in.bias), Error);
  EXPECT_THROW(conv_pool_relu(in.images, in.weight.slice(1, 0, 2), in.bias), Error);
  EXPECT_THROW(conv_pool_relu(in.images, in.weight.slice(2, 0, 4), in.bias), Error);
  EXPECT_THROW(conv_pool_relu(in.images, in.weight, in.bias.slice(0, 0, 2)), Error);
  EXPECT_THROW(conv_pool_relu(in.images, in.weight, at::Tensor()), Error);
}

TEST(ConvPoolRelu, RefusesToBeDifferentiatedTwice) {
  const auto in = inputs(1, at::kFloat);
  const auto out = conv_pool_relu(in.images, in.weight, in.bias).sum();
  EXPECT_ANY_THROW(torch::autograd::grad({out * out}, {in.weight}, {}, true, true));
}

// Small integers: windows with ties and with nothing above zero are common.
at::Tensor images(std::vector<std::int64_t> shape, at::ScalarType type) {
  torch::manual_seed(7);
  return torch::randint(-3, 4, shape, type);
}

struct Result {
  at::Tensor value, gradient;
};

template <class F>
Result differentiate(const F& f, const at::Tensor& in) {
  const auto leaf = in.detach().requires_grad_();
  const auto value = f(leaf);
  const auto weights = torch::arange(1, value.numel() + 1, value.options()).view(value.sizes());
  value.backward(weights);
  return {value.detach(), leaf.grad()};
}

at::Tensor relu_then_pool(const at::Tensor& in) {
  return at::max_pool2d(at::relu(in), 2, 2);
}

TEST(MaxPoolRelu, EqualsLibtorchInValueAndGradient) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t width : {2, 8, 10, 12, 14, 28, 34}) {
      const auto in = images({3, 2, 6, width}, type);
      const auto ours = differentiate(max_pool2x2_relu, in);
      const auto theirs = differentiate(relu_then_pool, in);
      EXPECT_TRUE(at::equal(ours.value, theirs.value)) << type << " width " << width;
      EXPECT_TRUE(at::equal(ours.gradient, theirs.gradient)) << type << " width " << width;
    }
  }
}

TEST(MaxPoolRelu, EqualsLibtorchOnLayoutsTheKernelDoesNotTake) {
  const auto in = images({2, 3, 5, 7}, at::kFloat);
  const auto channels_last =
      images({2, 3, 4, 6}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  for (const auto& each : {in, channels_last, in.to(at::kBFloat16)}) {
    const auto ours = differentiate(max_pool2x2_relu, each);
    const auto theirs = differentiate(relu_then_pool, each);
    EXPECT_TRUE(at::equal(ours.value, theirs.value));
    EXPECT_TRUE(at::equal(ours.gradient, theirs.gradient));
  }
}

TEST(MaxPoolRelu, TakesAGradientOfAnyLayout) {
  const auto in = images({2, 4, 6, 8}, at::kFloat).requires_grad_();
  const auto weights = torch::randn({2, 4, 3, 4});
  const auto once = torch::autograd::grad({max_pool2x2_relu(in)}, {in}, {weights})[0];
  const auto strided = weights.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(once, torch::autograd::grad({max_pool2x2_relu(in)}, {in}, {strided})[0]));
}

TEST(MaxPoolRelu, HandsOnNotANumber) {
  auto in = torch::full({1, 1, 2, 8}, 5.0F);
  for (int corner = 0; corner < 4; ++corner) {
    in[0][0][corner / 2][2 * corner + corner % 2] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_TRUE(max_pool2x2_relu(in).isnan().all().item<bool>());
}

TEST(MaxPoolRelu, WorksOnNoExamples) {
  const auto in = torch::empty({0, 3, 4, 4}).requires_grad_();
  const auto out = max_pool2x2_relu(in);
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{0, 3, 2, 2}));
  out.sum().backward();
  EXPECT_EQ(in.grad().sizes(), in.sizes());
}

TEST(MaxPoolRelu, RefusesWhatItCannotDo) {
  EXPECT_THROW(max_pool2x2_relu(torch::ones({4, 4})), Error);
  EXPECT_THROW(max_pool2x2_relu(at::Tensor()), Error);
  const auto in = torch::ones({1, 1, 2, 8}).requires_grad_();
  const auto out = max_pool2x2_relu(in * in).sum();
  EXPECT_ANY_THROW(torch::autograd::grad({out * out}, {in}, {}, true, /*create_graph=*/true));
}

}  // namespace

}  // namespace brigade::layers
