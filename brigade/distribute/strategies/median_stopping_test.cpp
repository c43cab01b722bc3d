#include "brigade/distribute/strategies/median_stopping.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

using Reports = std::vector<TrialReport>;

/// Losses of epochs 1, 2, ...
Reports losses(const std::vector<double>& values) {
  Reports reports;
  for (const double value : values)
    reports.push_back({static_cast<std::int64_t>(reports.size()) + 1, {{"loss", value}}});
  return reports;
}

bool stops(const MedianStopping& rule, const std::vector<double>& own,
           const std::vector<std::vector<double>>& others) {
  std::vector<Reports> all;
  for (const auto& each : others) all.push_back(losses(each));
  return rule.reason_to_stop(losses(own), all).has_value();
}

TEST(MedianStopping, ComparesTheBestWithTheMedianOfMeans) {
  const MedianStopping rule;
  // Means up to epoch 2: 1.5, 3, 4. The median is 3.
  const std::vector<std::vector<double>> others = {{2, 1}, {4, 2}, {5, 3}};
  EXPECT_FALSE(stops(rule, {9, 3.0}, others));
  EXPECT_TRUE(stops(rule, {9, 3.1}, others));
  EXPECT_FALSE(stops(rule, {2.9, 9}, others));  // its best counts
}

TEST(MedianStopping, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  const MedianStopping rule;
  const std::vector<std::vector<double>> others = {{1, 1}, {2, 2}, {4, 4}, {9, 9}};
  EXPECT_FALSE(stops(rule, {9, 3.0}, others));
  EXPECT_TRUE(stops(rule, {9, 3.01}, others));
}

TEST(MedianStopping, ComparesEqualEpochsOnly) {
  const MedianStopping rule{.min_trials = 2};
  // Later epochs of the others do not count, nor others that have not come so far.
  EXPECT_FALSE(stops(rule, {9, 4}, {{4, 4, 0, 0}, {4, 4, 0, 0}}));
  EXPECT_FALSE(stops(rule, {9, 9}, {{1, 1}, {1}}));
  EXPECT_TRUE(stops(rule, {9, 9}, {{1, 1}, {1, 1}}));
}

TEST(MedianStopping, LeavesGraceEpochsAlone) {
  const MedianStopping rule{.grace_epochs = 3};
  const std::vector<std::vector<double>> others = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  EXPECT_FALSE(stops(rule, {9, 9, 9}, others));
  EXPECT_TRUE(stops(rule, {9, 9, 9, 9}, others));
}

TEST(MedianStopping, LargerCanBeBetter) {
  const MedianStopping rule{.metric = "accuracy", .maximize = true};
  const auto at = [](double accuracy) {
    return Reports{{1, {{"accuracy", accuracy}}}, {2, {{"accuracy", accuracy}}}};
  };
  EXPECT_FALSE(rule.reason_to_stop(at(0.8), {at(0.7), at(0.9)}).has_value());
  EXPECT_TRUE(rule.reason_to_stop(at(0.79), {at(0.7), at(0.9)}).has_value());
}

TEST(MedianStopping, ValuesThatAreNotFiniteAreTheWorst) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(stops({}, {nan, nan}, {{5, 5}, {6, 6}}));
  EXPECT_TRUE(stops({}, {nan, nan}, {{nan, nan}, {nan, nan}}));
  EXPECT_FALSE(stops({}, {7, 7}, {{nan, nan}, {nan, nan}, {5, 5}}));
}

TEST(MedianStopping, SaysWhy) {
  const auto reason = MedianStopping{}.reason_to_stop(
      losses({9, 8}), {losses({1, 1}), losses({1, 1}), losses({3})});
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(*reason,
            "the best loss up to epoch 2, 8, is worse than the median of the means of 2 other "
            "trials, 1");
}

TEST(MedianStopping, NamesTheMetricsThatThereAre) {
  const Error error =
      error_from([] { MedianStopping{.metric = "accuracy"}.reason_to_stop(losses({1}), {}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "loss")) << error.what();
}

TEST(MedianStopping, RefusesOptionsOutOfRange) {
  EXPECT_THROW(MedianStopping{.metric = ""}.check(), Error);
  EXPECT_THROW(MedianStopping{.grace_epochs = -1}.check(), Error);
  EXPECT_THROW(MedianStopping{.min_trials = 0}.check(), Error);
  EXPECT_NO_THROW(MedianStopping{}.check());
}

}  // namespace
}  // namespace brigade::distribute
