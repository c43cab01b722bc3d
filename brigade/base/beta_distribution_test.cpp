#include "brigade/base/beta_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

std::vector<double> beta_draws(double alpha, double beta) {
  CounterRng rng(7);
  std::vector<double> draws(20'000);
  for (double& draw : draws) {
    draw = random_beta(alpha, beta, rng);
    EXPECT_TRUE(draw >= 0 && draw <= 1) << draw;
  }
  return draws;
}

/// The largest difference between the draws' and the expected distribution function.
double distance_of(std::vector<double> draws, const std::function<double(double)>& expected) {
  std::sort(draws.begin(), draws.end());
  double largest = 0;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const double fraction = static_cast<double>(i) / static_cast<double>(draws.size());
    largest = std::max(largest, std::abs(fraction - expected(draws[i])));
  }
  return largest;
}

TEST(RandomBeta, HasTheDistributionFunction) {
  constexpr double kTolerance = 0.0115;  // 1.63 / sqrt(20'000): exceeded by one seed of a hundred
  EXPECT_LT(distance_of(beta_draws(1, 1), [](double x) { return x; }), kTolerance);
  EXPECT_LT(distance_of(beta_draws(2, 2), [](double x) { return x * x * (3 - 2 * x); }),
            kTolerance);
  EXPECT_LT(distance_of(beta_draws(3, 1), [](double x) { return x * x * x; }), kTolerance);
  EXPECT_LT(distance_of(beta_draws(0.5, 0.5),
                        [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }),
            kTolerance);
  EXPECT_LT(distance_of(beta_draws(0.2, 1), [](double x) { return std::pow(x, 0.2); }), kTolerance);
}

TEST(RandomBeta, SmallParametersGiveNearlyZeroOrOne) {
  int ones = 0;
  for (const double draw : beta_draws(1e-6, 1e-6)) {
    EXPECT_LT(std::min(draw, 1 - draw), 1e-9);
    ones += draw > 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(ones, 10'000, 300);
}

TEST(RandomBeta, RefusesParametersThatAreNotAboveZero) {
  CounterRng rng(1);
  EXPECT_THROW(random_beta(0, 1, rng), Error);
  EXPECT_THROW(random_beta(1, -1, rng), Error);
  EXPECT_THROW(random_beta(std::nan(""), 1, rng), Error);
  EXPECT_THROW(random_beta(1, std::numeric_limits<double>::infinity(), rng), Error);
}

}  // namespace
}  // namespace brigade::base
