#include "brigade/base/clock.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/manual_clock.h"

namespace brigade::base {
namespace {

using std::chrono::milliseconds;

TEST(SystemClock, NeverGoesBack) {
  const SystemClock clock;
  auto before = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const auto now = clock.now();
    EXPECT_LE(before, now);
    before = now;
  }
}

TEST(SystemClock, KnowsTheTimeOfDay) {
  using namespace std::chrono_literals;
  const auto before = std::chrono::system_clock::now();
  EXPECT_LT(SystemClock().wall_time() - before, 1h);
  EXPECT_LT(before - SystemClock().wall_time(), 1h);
}

TEST(ManualClock, MovesOnlyWhenAdvanced) {
  ManualClock clock;
  const auto start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(milliseconds(1500));
  clock.advance(milliseconds(1));
  EXPECT_EQ(clock.now() - start, milliseconds(1501));
}

TEST(ManualClock, HasATimeOfDayThatMovesWithIt) {
  ManualClock clock;
  clock.advance(milliseconds(2500));
  EXPECT_EQ(clock.wall_time().time_since_epoch(), milliseconds(2500));
}

TEST(ManualClock, RefusesToGoBack) {
  ManualClock clock;
  EXPECT_THROW(clock.advance(milliseconds(-1)), Error);
}

}  // namespace
}  // namespace brigade::base
