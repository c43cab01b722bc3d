#include "brigade/layers/max_pool_relu.h"

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

namespace brigade::layers {
namespace {

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
