#include "brigade/runs/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace brigade::runs {
namespace {

std::vector<CurvePoint> wave(std::size_t count) {
  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({.step = static_cast<std::int64_t>(i), .value = std::sin(0.01 * i)});
  return points;
}

TEST(Thinned, KeepsEndsPeaksAndOrder) {
  std::vector<CurvePoint> points = wave(10'000);
  points[4321].value = 50;
  points[1234].value = -50;
  const auto kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 100u);
  EXPECT_GT(kept.size(), 90u);
  EXPECT_EQ(kept.front(), points.front());
  EXPECT_EQ(kept.back(), points.back());
  EXPECT_THAT(kept, testing::Contains(points[4321]));
  EXPECT_THAT(kept, testing::Contains(points[1234]));
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &CurvePoint::step));
}

TEST(Thinned, KeepsAPointThatIsNotFinite) {
  std::vector<CurvePoint> points = wave(1'000);
  points[500].value = std::numeric_limits<double>::quiet_NaN();
  const auto kept = thinned(points, 20);
  EXPECT_TRUE(
      std::ranges::any_of(kept, [](const CurvePoint& each) { return std::isnan(each.value); }));
}

TEST(Thinned, LeavesAShortCurveAlone) {
  EXPECT_EQ(thinned(wave(20), 20), wave(20));
}

}  // namespace
}  // namespace brigade::runs
