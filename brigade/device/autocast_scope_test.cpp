#include "brigade/device/autocast_scope.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <thread>

namespace brigade::device {
namespace {

at::ScalarType product_dtype() {
  return at::linear(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

TEST(AutocastScope, CastsMatrixProducts) {
  {
    const AutocastScope half(Precision::kFp16);
    EXPECT_EQ(product_dtype(), at::kHalf);
    EXPECT_EQ(AutocastState::current().dtype(c10::kCPU), at::kHalf);
    {
      const AutocastScope brain(Precision::kBf16);
      EXPECT_EQ(product_dtype(), at::kBFloat16);
      const AutocastScope full(Precision::kFull);
      EXPECT_EQ(product_dtype(), at::kFloat);
      EXPECT_EQ(AutocastState::current().dtype(c10::kCPU), std::nullopt);
    }
    EXPECT_EQ(product_dtype(), at::kHalf);
    std::thread([] { EXPECT_EQ(product_dtype(), at::kFloat); }).join();
    EXPECT_EQ(
        at::linear(at::ones({2, 2}, at::kDouble), at::ones({2, 2}, at::kDouble)).scalar_type(),
        at::kDouble);
  }
  EXPECT_EQ(product_dtype(), at::kFloat);
  EXPECT_EQ(at::autocast::get_autocast_dtype(c10::kCPU), at::kBFloat16);
}

/// Two steps with an update of the weight in between: the sum that the second one computes.
float second_result(at::Tensor weight) {
  const at::Tensor x = at::ones({1, 1});
  at::linear(x, weight);
  {
    const at::NoGradGuard no_gradients;
    weight.fill_(3);
  }
  return at::linear(x, weight).item<float>();
}

// The reason why the scope does not use libtorch's cache.
TEST(AutocastScope, NeverComputesWithWeightsOfAnEarlierStep) {
  const auto weight = [] { return at::ones({1, 1}).requires_grad_(); };
  at::autocast::set_autocast_enabled(c10::kCPU, true);
  EXPECT_EQ(second_result(weight()), 1) << "libtorch's cache finds out about updates: use it";
  {
    const AutocastScope scope(Precision::kBf16);
    EXPECT_EQ(second_result(weight()), 3);
  }
  {
    // Inside of code that fills the cache.
    const at::Tensor cached = weight();
    at::linear(at::ones({1, 1}), cached);
    const AutocastScope scope(Precision::kBf16);
    EXPECT_EQ(second_result(cached), 3);
  }
  at::autocast::set_autocast_enabled(c10::kCPU, false);
  clear_autocast_cache();
}

TEST(AutocastScope, GivesGradientsToWeightsThatWereReadWithoutThem) {
  const at::Tensor weight = at::ones({1, 1}).requires_grad_(), x = at::ones({1, 1});
  const AutocastScope scope(Precision::kBf16);
  {
    const at::NoGradGuard no_gradients;  // an evaluation
    at::linear(x, weight);
  }
  EXPECT_TRUE(at::linear(x, weight).requires_grad());
}

TEST(ClearAutocastCache, ForgetsCasts) {
  const at::Tensor weight = at::ones({1, 1}).requires_grad_(), x = at::ones({1, 1});
  at::autocast::set_autocast_enabled(c10::kCPU, true);
  at::linear(x, weight);
  {
    const at::NoGradGuard no_gradients;
    weight.fill_(3);
  }
  clear_autocast_cache();
  EXPECT_EQ(at::linear(x, weight).item<float>(), 3);
  at::autocast::set_autocast_enabled(c10::kCPU, false);
  clear_autocast_cache();
}

TEST(VariableDtype, IsFloatWhereAutocastHasCast) {
  const at::Tensor cast = at::ones({2}, at::kBFloat16), plain = at::ones({2}, at::kDouble);
  EXPECT_EQ(variable_dtype(cast), at::kBFloat16) << "a model in bfloat16";
  const AutocastScope scope(Precision::kBf16);
  EXPECT_EQ(variable_dtype(cast), at::kFloat);
  EXPECT_EQ(variable_dtype(plain), at::kDouble);
  EXPECT_EQ(variable_dtype(at::ones({2}, at::kHalf)), at::kHalf);
}

}  // namespace
}  // namespace brigade::device
