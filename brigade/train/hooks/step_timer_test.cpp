#include "brigade/train/hooks/step_timer.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/manual_clock.h"

namespace brigade::train {
namespace {

using std::chrono::seconds;

TEST(StepTimer, IsDueImmediatelyAndThenEveryNSteps) {
  const base::ManualClock clock;
  StepTimer timer({.steps = 3}, clock);
  EXPECT_TRUE(timer.is_due(5));
  EXPECT_FALSE(timer.mark(5).has_value());
  EXPECT_FALSE(timer.is_due(5));
  EXPECT_FALSE(timer.is_due(7));
  EXPECT_TRUE(timer.is_due(8));
  EXPECT_EQ(timer.mark(8)->steps, 3);
  EXPECT_EQ(timer.last_step(), 8);
}

TEST(StepTimer, IsDueAfterATimeButNeverTwiceAtTheSameStep) {
  base::ManualClock clock;
  StepTimer timer({.time = seconds(10)}, clock);
  timer.mark(0);
  clock.advance(seconds(9));
  EXPECT_FALSE(timer.is_due(1));
  clock.advance(seconds(1));
  EXPECT_FALSE(timer.is_due(0));
  EXPECT_TRUE(timer.is_due(1));
  EXPECT_DOUBLE_EQ(timer.mark(1)->time.count(), 10.0);
}

TEST(StepTimer, WithBothIsDueWhenEitherHasPassed) {
  base::ManualClock clock;
  StepTimer timer({.steps = 5, .time = seconds(10)}, clock);
  timer.mark(0);
  EXPECT_TRUE(timer.is_due(5));
  EXPECT_FALSE(timer.is_due(4));
  clock.advance(seconds(10));
  EXPECT_TRUE(timer.is_due(4));
}

TEST(StepTimer, WithNeitherIsNeverDue) {
  const base::ManualClock clock;
  StepTimer timer({}, clock);
  EXPECT_FALSE(timer.is_due(0));
}

TEST(StepTimer, StepsAreNotDueByTime) {
  base::ManualClock clock;
  StepTimer timer({.steps = 2, .time = std::chrono::seconds(10)}, clock);
  EXPECT_TRUE(timer.is_due_by_time(0));
  timer.mark(0);
  EXPECT_TRUE(timer.is_due(2));
  EXPECT_FALSE(timer.is_due_by_time(2));
  clock.advance(std::chrono::seconds(10));
  EXPECT_TRUE(timer.is_due_by_time(1));
  EXPECT_FALSE(timer.is_due_by_time(0)) << "a step is never due twice";
  EXPECT_FALSE(StepTimer({.steps = 2}, clock).is_due_by_time(0));
}

TEST(StepTimer, IsDueImmediatelyAfterReset) {
  const base::ManualClock clock;
  StepTimer timer({.steps = 3}, clock);
  timer.mark(0);
  timer.reset();
  EXPECT_TRUE(timer.is_due(1));
}

TEST(StepTimer, RefusesValuesThatAreNotPositive) {
  const base::ManualClock clock;
  EXPECT_THROW(StepTimer({.steps = 0}, clock), Error);
  EXPECT_THROW(StepTimer({.time = seconds(0)}, clock), Error);
}

}  // namespace
}  // namespace brigade::train
