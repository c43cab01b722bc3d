#include "brigade/variables/initializer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::variables {
namespace {

using Shape = std::vector<std::int64_t>;

void expect_refused(const std::function<void()>& call, const std::string& part_of_message) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

struct Moments {
  double mean, deviation, least, most;
};
Moments moments(const at::Tensor& values) {
  const auto wide = values.to(at::kDouble);
  return {wide.mean().item<double>(), wide.std(/*unbiased=*/false).item<double>(),
          wide.min().item<double>(), wide.max().item<double>()};
}

// Enough samples to estimate a mean to 0.003 and a standard deviation to 0.002.
const Shape kMany = {300, 1000};

TEST(Initializer, FillsWithConstantsOfAnyDtype) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kHalf, at::kBool}) {
    const auto zeros = zeros_initializer()({2, 3}, dtype, 7);
    const auto ones = ones_initializer()({2, 3}, dtype, 7);
    EXPECT_EQ(zeros.scalar_type(), dtype);
    EXPECT_EQ(zeros.sum().item<double>(), 0.0) << dtype;
    EXPECT_EQ(ones.sum().item<double>(), 6.0) << dtype;
  }
  EXPECT_EQ(constant_initializer(2.5)({2}, at::kFloat, 7).sum().item<float>(), 5.0F);
  EXPECT_EQ(constant_initializer(3)({2}, at::kInt, 7).sum().item<int>(), 6);
  expect_refused([] { constant_initializer(2.5)({2}, at::kInt, 7); }, "cannot hold 2.5");
}

TEST(Initializer, RefusesInvalidShapesAndDtypes) {
  expect_refused([] { ones_initializer()({2, -1}, at::kFloat, 7); }, "negative");
  expect_refused([] { truncated_normal_initializer()({2}, at::kInt, 7); }, "Int");
  expect_refused([] { random_normal_initializer()({2}, at::kLong, 7); }, "Long");
  expect_refused([] { random_uniform_initializer()({2}, at::kLong, 7); }, "Long");
  expect_refused([] { glorot_uniform_initializer()({2}, at::kByte, 7); },
                 "glorot_uniform_initializer: the dtype is Byte");
  expect_refused([] { truncated_normal_initializer(0.0, -0.5); }, "stddev is -0.5");
  expect_refused([] { random_uniform_initializer(1.0, -1.0); }, "1 to -1");
  expect_refused([] { variance_scaling_initializer({.scale = 0.0}); }, "scale is 0");
  expect_refused([] { Initializer()({2}, at::kFloat, 7); }, "none");
  const Initializer floats(
      "mine", [](at::IntArrayRef, at::ScalarType, std::uint64_t) { return at::Tensor(); },
      at::kFloat);
  expect_refused([&] { floats({2}, at::kDouble, 7); }, "mine: it makes Float");
}

TEST(Initializer, AValueHasItsShapeAndDtype) {
  auto source = torch::tensor({1.0, 2.0}, at::kDouble);
  const auto initializer = Initializer::constant_value(source);
  source.fill_(9.0);
  ASSERT_TRUE(initializer.value());
  EXPECT_EQ(initializer.dtype(), at::kDouble);
  auto made = initializer({2}, at::kDouble, 7);
  EXPECT_TRUE(at::equal(made, torch::tensor({1.0, 2.0}, at::kDouble)));
  made.fill_(5.0);
  EXPECT_TRUE(at::equal(initializer({2}, at::kDouble, 7), torch::tensor({1.0, 2.0}, at::kDouble)));
  expect_refused([&] { initializer({3}, at::kDouble, 7); }, "[2]");
  expect_refused([&] { initializer({2}, at::kFloat, 7); }, "Double");
  EXPECT_FALSE(Initializer());
  EXPECT_TRUE(initializer);
}

TEST(Initializer, IsAPureFunctionOfItsArguments) {
  for (const auto& initializer :
       {truncated_normal_initializer(), random_normal_initializer(), random_uniform_initializer(),
        glorot_uniform_initializer(), he_normal_initializer(), orthogonal_initializer()}) {
    const auto first = initializer({17, 33}, at::kFloat, 42);
    EXPECT_TRUE(at::equal(first, initializer({17, 33}, at::kFloat, 42))) << initializer.name();
    EXPECT_FALSE(at::equal(first, initializer({17, 33}, at::kFloat, 43))) << initializer.name();
  }
}

// Initial weights must never change. The values were computed independently, in Python, from the
// definitions of CounterRng and of Box and Muller.
TEST(Initializer, ValuesNeverChange) {
  const auto first = [](const Initializer& initializer) {
    return initializer({4}, at::kDouble, 42)[0].item<double>();
  };
  EXPECT_NEAR(first(random_uniform_initializer(0.0, 1.0)), 0.4685865183391049, 1e-15);
  EXPECT_NEAR(first(random_normal_initializer()), -0.6076510539335191, 1e-12);
}

TEST(RandomNormal, HasItsMeanAndDeviation) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto found = moments(random_normal_initializer(2.0, 0.5)(kMany, dtype, 7));
    EXPECT_NEAR(found.mean, 2.0, 0.004);
    EXPECT_NEAR(found.deviation, 0.5, 0.003);
    EXPECT_LT(found.least, 0.5) << "tails exist";
    EXPECT_GT(found.most, 3.5);
  }
}

TEST(TruncatedNormal, EndsAtTwoDeviations) {
  const auto found = moments(truncated_normal_initializer(1.0, 0.1)(kMany, at::kFloat, 7));
  EXPECT_NEAR(found.mean, 1.0, 0.001);
  EXPECT_NEAR(found.deviation, 0.0879626, 0.0005);
  EXPECT_GE(found.least, 0.8 - 1e-6);
  EXPECT_LE(found.most, 1.2 + 1e-6);
  EXPECT_GT(found.most, 1.199);
}

TEST(TruncatedNormal, WithoutDeviationIsTheMean) {
  const auto values = truncated_normal_initializer(3.0, 0.0)({5}, at::kFloat, 7);
  EXPECT_EQ(values.min().item<float>(), 3.0F);
  EXPECT_EQ(values.max().item<float>(), 3.0F);
}

TEST(RandomUniform, StaysBelowItsUpperEnd) {
  const auto found = moments(random_uniform_initializer(-1.0, 3.0)(kMany, at::kFloat, 7));
  EXPECT_NEAR(found.mean, 1.0, 0.01);
  EXPECT_NEAR(found.deviation, 4.0 / std::sqrt(12.0), 0.01);
  EXPECT_GE(found.least, -1.0);
  EXPECT_LT(found.most, 3.0);
  // Values between 1 and the next float32 round to one of the two.
  const float next = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(moments(random_uniform_initializer(1.0, next)({1000}, at::kFloat, 7)).most, 1.0);
  EXPECT_EQ(moments(random_uniform_initializer(1.0, 1.0)({10}, at::kFloat, 7)).most, 1.0);
}

// Four-dimensional: 64 outputs, 32 inputs, a window of 5 x 3.
const Shape kKernel = {64, 32, 5, 3};
constexpr double kFanIn = 32 * 15, kFanOut = 64 * 15, kFanAverage = (kFanIn + kFanOut) / 2;

TEST(VarianceScaling, CountsInputsAndOutputsOfAKernel) {
  const auto deviation = [](FanMode mode) {
    const auto initializer = variance_scaling_initializer(
        {.mode = mode, .distribution = Distribution::kUntruncatedNormal});
    return moments(initializer(kKernel, at::kFloat, 7)).deviation;
  };
  EXPECT_NEAR(deviation(FanMode::kFanIn), std::sqrt(1 / kFanIn), 0.001);
  EXPECT_NEAR(deviation(FanMode::kFanOut), std::sqrt(1 / kFanOut), 0.001);
  EXPECT_NEAR(deviation(FanMode::kFanAverage), std::sqrt(1 / kFanAverage), 0.001);
}

TEST(VarianceScaling, CorrectsTheDeviationForTheTruncation) {
  const auto found = moments(variance_scaling_initializer({.scale = 4.0})(kMany, at::kFloat, 7));
  const double wanted = std::sqrt(4.0 / 1000);
  EXPECT_NEAR(found.deviation, wanted, 0.005 * wanted);
  EXPECT_NEAR(found.most, 2 * wanted / 0.87962566103423978, 0.001 * wanted);
}

TEST(VarianceScaling, SupportsShapesWithFewDimensions) {
  const auto limit = [](const Shape& shape) {
    const auto initializer = variance_scaling_initializer({.distribution = Distribution::kUniform});
    double most = 0.0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      most = std::max(most, moments(initializer(shape, at::kDouble, seed).view({-1})).most);
    }
    return most;
  };
  EXPECT_NEAR(limit({}), std::sqrt(3.0), 0.05) << "no inputs count as one";
  EXPECT_NEAR(limit({12}), std::sqrt(3.0 / 12), 0.01);
  EXPECT_NEAR(limit({4, 12}), std::sqrt(3.0 / 12), 0.01);
  EXPECT_EQ(variance_scaling_initializer()({4, 0}, at::kFloat, 7).numel(), 0);
}

TEST(GlorotAndHe, AreVarianceScalings) {
  const auto uniform = [](const Initializer& initializer, double variance) {
    const auto found = moments(initializer(kKernel, at::kFloat, 7));
    EXPECT_NEAR(found.most, std::sqrt(3 * variance), 1e-4) << initializer.name();
    EXPECT_NEAR(found.deviation, std::sqrt(variance), 0.001) << initializer.name();
  };
  const auto normal = [](const Initializer& initializer, double variance) {
    const auto found = moments(initializer(kKernel, at::kFloat, 7));
    EXPECT_NEAR(found.most, 2 * std::sqrt(variance) / 0.87962566103423978, 1e-3)
        << initializer.name();
    EXPECT_NEAR(found.deviation, std::sqrt(variance), 0.001) << initializer.name();
  };
  uniform(glorot_uniform_initializer(), 1 / kFanAverage);
  normal(glorot_normal_initializer(), 1 / kFanAverage);
  uniform(he_uniform_initializer(), 2 / kFanIn);
  normal(he_normal_initializer(), 2 / kFanIn);
}

TEST(Orthogonal, RowsOrColumnsAreOrthonormal) {
  for (const auto& shape : {Shape{20, 50}, Shape{50, 20}, Shape{32, 32}, Shape{16, 3, 2, 2}}) {
    const auto matrix =
        orthogonal_initializer(3.0)(shape, at::kDouble, 7).view({shape[0], -1}) / 3.0;
    const auto few = std::min(matrix.size(0), matrix.size(1));
    const auto product =
        matrix.size(0) == few ? matrix.matmul(matrix.t()) : matrix.t().matmul(matrix);
    EXPECT_LT((product - at::eye(few, at::kDouble)).abs().max().item<double>(), 1e-10)
        << product.sizes();
  }
  EXPECT_EQ(orthogonal_initializer()({0, 4}, at::kFloat, 7).numel(), 0);
  EXPECT_EQ(orthogonal_initializer()({4, 0}, at::kFloat, 7).numel(), 0);
}

TEST(Orthogonal, NeedsAMatrix) {
  expect_refused([] { orthogonal_initializer()({4}, at::kFloat, 7); }, "two dimensions");
  expect_refused([] { orthogonal_initializer()({4, 4}, at::kInt, 7); }, "Int");
}

}  // namespace
}  // namespace brigade::variables
