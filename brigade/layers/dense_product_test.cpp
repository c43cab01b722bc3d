#include "brigade/layers/dense_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "brigade/device/autocast_scope.h"
#include "brigade/layers/small_batch_products.h"
#include "brigade/layers/vector_tiles.h"

namespace brigade::layers {
namespace {

struct ProductInputs {
  at::Tensor inputs, weight, bias;
  std::vector<at::Tensor> all() const { return {inputs, weight, bias}; }
  ProductInputs to(at::ScalarType type) const {
    const auto copy = [&](const at::Tensor& t) { return t.detach().to(type).requires_grad_(); };
    return {copy(inputs), copy(weight), copy(bias)};
  }
};

ProductInputs product_inputs(std::int64_t examples, std::int64_t in, std::int64_t out) {
  torch::manual_seed(7);
  return {torch::randn({examples, in}).requires_grad_(), torch::randn({out, in}).requires_grad_(),
          torch::randn({out}).requires_grad_()};
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// The outputs, and the gradients of inputs, weight and bias.
std::vector<at::Tensor> outputs_and_gradients(const ProductInputs& in, const at::Tensor& outputs) {
  torch::manual_seed(8);
  const at::Tensor weights = torch::randn(outputs.sizes()).to(outputs.scalar_type());
  std::vector<at::Tensor> all = torch::autograd::grad({(outputs * weights).sum()}, in.all());
  all.insert(all.begin(), outputs);
  return all;
}

/// Whether the node that made `outputs`, or that before the addition of the bias, is our kernels'.
bool is_of_kernel(const at::Tensor& outputs) {
  const auto node = outputs.grad_fn();
  const auto before = node->num_outputs() > 0 ? node->next_edge(0).function : nullptr;
  const auto is_ours = [](const auto& each) {
    return each && each->name().find("SmallBatchProduct") != std::string::npos;
  };
  return is_ours(node) || is_ours(before);
}

class DenseProductOfSmallBatches : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SmallBatchProducts::are_supported()) GTEST_SKIP() << "no AVX2: libtorch computes";
    at::set_num_threads(1);
  }
};

// Tiles have 6, 4 and 2 rows and 1, and 64, 32, 16 and 8 columns: numbers that leave a rest of
// each.
TEST_F(DenseProductOfSmallBatches, EqualsLibtorchInFloat64InValueAndGradients) {
  struct Shape {
    std::int64_t examples, in, out;
  };
  for (const Shape& shape : {Shape{2, 3136, 1024},
                             {15, 2064, 515},
                             {32, 1040, 1013},
                             {31, 272, 4099},
                             {63, 1040, 1011}}) {
    const ProductInputs in = product_inputs(shape.examples, shape.in, shape.out);
    const at::Tensor outputs = dense_product(in.inputs, in.weight, in.bias);
    ASSERT_TRUE(is_of_kernel(outputs));
    const ProductInputs exact = in.to(at::kDouble);
    const auto ours = outputs_and_gradients(in, outputs);
    const auto theirs =
        outputs_and_gradients(exact, at::linear(exact.inputs, exact.weight, exact.bias));
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_LT(relative_difference(ours[i].to(at::kDouble), theirs[i]), 1e-6)
          << i << " of " << shape.examples << " x " << shape.in << " x " << shape.out;
  }
}

TEST_F(DenseProductOfSmallBatches, BitsDoNotDependOnTheNumberOfThreads) {
  const ProductInputs in = product_inputs(17, 2064, 1000);
  const auto one = outputs_and_gradients(in, dense_product(in.inputs, in.weight, in.bias));
  at::set_num_threads(3);
  const auto three = outputs_and_gradients(in, dense_product(in.inputs, in.weight, in.bias));
  at::set_num_threads(1);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

/// An output as the kernels of all versions add it: a sum in each lane of a vector, then in pairs.
float output_in_order(const float* x, const float* w, std::int64_t in) {
  const std::int64_t lanes = vector_instructions() == VectorInstructions::kAvx512 ? 16 : 8;
  std::vector<float> sums(static_cast<std::size_t>(lanes), 0.0F);
  for (std::int64_t i = 0; i < in; ++i) {
    float& sum = sums[static_cast<std::size_t>(i % lanes)];
    sum = std::fma(x[i], w[i], sum);
  }
  for (std::size_t half = sums.size() / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums.front();
}

/// An input's gradient: sums of 16 outputs each, added one after another.
float input_gradient_in_order(const float* dy, const float* w, std::int64_t in, std::int64_t out) {
  float gradient = 0;
  for (std::int64_t first = 0; first < out; first += 16) {
    float sum = 0;
    for (std::int64_t o = first; o < std::min(first + 16, out); ++o)
      sum = std::fma(dy[o], w[o * in], sum);
    gradient = first == 0 ? sum : gradient + sum;
  }
  return gradient;
}

// A checkpoint of an earlier version goes on with the same bits.
TEST_F(DenseProductOfSmallBatches, TheOrderOfAdditionsIsFixed) {
  constexpr std::int64_t kExamples = 7, kIn = 480, kOut = 23;  // rests of tiles and of blocks
  const ProductInputs in = product_inputs(kExamples, kIn, kOut);
  const at::Tensor dy = torch::randn({kExamples, kOut});
  const float *x = in.inputs.const_data_ptr<float>(), *w = in.weight.const_data_ptr<float>(),
              *gradients = dy.const_data_ptr<float>();
  at::Tensor outputs = torch::empty({kExamples, kOut}), dx = torch::empty({kExamples, kIn});
  const SmallBatchProducts products(kExamples, kIn, kOut);
  products.outputs(x, w, outputs.mutable_data_ptr<float>());
  products.input_gradient(gradients, w, dx.mutable_data_ptr<float>());
  for (std::int64_t e = 0; e < kExamples; ++e) {
    for (std::int64_t o = 0; o < kOut; ++o)
      ASSERT_EQ(outputs[e][o].item<float>(), output_in_order(x + e * kIn, w + o * kIn, kIn));
    for (std::int64_t i = 0; i < kIn; ++i)
      ASSERT_EQ(dx[e][i].item<float>(),
                input_gradient_in_order(gradients + e * kOut, w + i, kIn, kOut));
  }
}

TEST_F(DenseProductOfSmallBatches, WorksWithoutABiasAndForSomeGradientsOnly) {
  ProductInputs in = product_inputs(4, 2048, 512);
  in.inputs.requires_grad_(false);
  const at::Tensor outputs = dense_product(in.inputs, in.weight);
  ASSERT_TRUE(is_of_kernel(outputs));
  EXPECT_LT(relative_difference(outputs, at::linear(in.inputs, in.weight)), 1e-6);
  const at::Tensor gradient = torch::autograd::grad({outputs.sum()}, {in.weight}).front();
  EXPECT_LT(relative_difference(gradient, in.inputs.sum(0).expand_as(gradient)), 1e-6);
}

TEST_F(DenseProductOfSmallBatches, GradientsOfGradientsAreLibtorchs) {
  const ProductInputs in = product_inputs(3, 1024, 1024);
  const auto second = [&](const at::Tensor& outputs) {
    const at::Tensor first =
        torch::autograd::grad({outputs.square().sum()}, {in.inputs}, {}, true, true).front();
    return torch::autograd::grad({first.square().sum()}, {in.weight}).front();
  };
  EXPECT_LT(relative_difference(second(dense_product(in.inputs, in.weight, in.bias)),
                                second(at::linear(in.inputs, in.weight, in.bias))),
            1e-5);
}

TEST_F(DenseProductOfSmallBatches, LibtorchComputesWhatTheKernelsAreNotFor) {
  const auto is_ours = [](const ProductInputs& in) {
    return is_of_kernel(dense_product(in.inputs, in.weight, in.bias));
  };
  EXPECT_TRUE(is_ours(product_inputs(2, 1024, 1024)));
  EXPECT_FALSE(is_ours(product_inputs(1, 1024, 1024)));   // one example
  EXPECT_FALSE(is_ours(product_inputs(65, 1024, 1024)));  // many
  EXPECT_FALSE(is_ours(product_inputs(2, 1023, 1100)));   // no multiple of 16
  EXPECT_FALSE(is_ours(product_inputs(2, 64, 64)));       // small weights
  EXPECT_FALSE(is_ours(product_inputs(2, 1024, 1024).to(at::kDouble)));
  ProductInputs strided = product_inputs(2, 1024, 1024);
  strided.weight = torch::randn({1024, 1024}).t().requires_grad_();
  EXPECT_FALSE(is_ours(strided));
  const device::AutocastScope autocast(device::Precision::kBf16);
  EXPECT_FALSE(is_ours(product_inputs(2, 1024, 1024)));
}

}  // namespace
}  // namespace brigade::layers
