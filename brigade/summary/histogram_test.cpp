#include "brigade/summary/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <string>

#include "brigade/base/error.h"

namespace brigade::summary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kLargest = std::numeric_limits<double>::max();

Histogram count(const std::vector<double>& values) {
  HistogramCounter counter;
  counter.add(values);
  return counter.histogram();
}

std::string refusal(const Histogram& histogram) {
  try {
    check_histogram(histogram);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "did not throw";
  return "";
}

// The expected numbers are those of TensorFlow 2.21's histogram summary.
TEST(Histogram, EqualsTensorFlowsForTheSameValues) {
  const Histogram histogram = count({-1.5, 0.0, 0.5, 0.5, 3.0, 1e30, -1e-13});
  EXPECT_EQ(histogram.min, -1.5);
  EXPECT_EQ(histogram.max, 1e30);
  EXPECT_EQ(histogram.count, 7);
  EXPECT_EQ(histogram.sum, 1e30);
  EXPECT_EQ(histogram.sum_squares, 1.0000000000000001e+60);
  EXPECT_THAT(histogram.limits,
              ElementsAre(-1.624957930213695, -1.47723448201245, -1e-12, 0.0, 1e-12,
                          0.47069243095356195, 0.5177616740489182, 2.8787120958073054,
                          3.1665833053880363, 9.920775621859783e+19, kLargest));
  EXPECT_THAT(histogram.counts, ElementsAre(0, 1, 0, 1, 1, 0, 2, 0, 1, 0, 1));
}

TEST(Histogram, WithoutValuesIsOneEmptyRange) {
  const Histogram histogram = count({});
  EXPECT_EQ(histogram.count, 0);
  EXPECT_EQ(histogram.min, kLargest);
  EXPECT_EQ(histogram.max, -kLargest);
  EXPECT_THAT(histogram.limits, ElementsAre(kLargest));
  EXPECT_THAT(histogram.counts, ElementsAre(0));
}

TEST(Histogram, CountsEveryValueOnce) {
  std::vector<double> values;
  for (double value = 1e-14; value < 1e22; value *= 1.7) {
    values.push_back(value);
    values.push_back(-value);
  }
  values.insert(values.end(), {0.0, -0.0, kLargest, -kLargest});
  const Histogram histogram = count(values);
  const double total = std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0);
  EXPECT_EQ(total, static_cast<double>(values.size()));
  EXPECT_EQ(histogram.count, total);
  EXPECT_NO_THROW(check_histogram(histogram));
}

TEST(Histogram, ALimitBelongsToTheRangeThatItBegins) {
  const Histogram histogram = count({0.0});
  ASSERT_EQ(histogram.limits.size(), 3u);
  EXPECT_EQ(histogram.limits[0], 0.0);
  EXPECT_EQ(histogram.limits[1], 1e-12);
  EXPECT_THAT(histogram.counts, ElementsAre(0, 1, 0));
}

TEST(Histogram, FloatsCountAsTheDoublesTheyAre) {
  HistogramCounter counter;
  counter.add(std::vector<float>{0.1f, 2.5f});
  EXPECT_EQ(counter.histogram(), count({double{0.1f}, 2.5}));
}

TEST(Histogram, RefusesNonFiniteValuesWithoutCountingAny) {
  HistogramCounter counter;
  try {
    counter.add(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()});
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("value 1 of 2 is nan"));
  }
  EXPECT_EQ(counter.histogram().count, 0);
  EXPECT_THROW(counter.add(std::vector<double>{std::numeric_limits<double>::infinity()}), Error);
}

TEST(Histogram, AnyAscendingRangesAreAllowed) {
  const Histogram good{.min = 0, .max = 2, .count = 3, .limits = {1, 2}, .counts = {1, 2}};
  EXPECT_NO_THROW(check_histogram(good));
  EXPECT_THAT(refusal({}), HasSubstr("no limits"));
  Histogram bad = good;
  bad.counts.pop_back();
  EXPECT_THAT(refusal(bad), HasSubstr("2 limits and 1 counts"));
  bad = good;
  bad.limits[1] = 1;
  EXPECT_THAT(refusal(bad), HasSubstr("limit 1 is not"));
  bad = good;
  bad.counts[0] = -1;
  EXPECT_THAT(refusal(bad), HasSubstr("count 0"));
  bad = good;
  bad.limits[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal(bad), HasSubstr("limit 0"));
}

}  // namespace
}  // namespace brigade::summary
