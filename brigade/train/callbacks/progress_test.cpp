#include "brigade/train/callbacks/progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "brigade/base/error.h"
#include "brigade/base/testing/manual_clock.h"

namespace brigade::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Progress, IsDueOnceTheIntervalHasPassed) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, clock, {.interval = seconds(5)});
  EXPECT_FALSE(progress.is_due());
  clock.advance(milliseconds(4999));
  EXPECT_FALSE(progress.is_due());
  clock.advance(milliseconds(1));
  EXPECT_TRUE(progress.is_due());
  progress.report({.steps = 1});
  EXPECT_FALSE(progress.is_due());
}

TEST(Progress, WritesALineWithSpeedLossAndRemainingTime) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, clock, {.total_steps = 400});
  clock.advance(seconds(10));
  progress.report({.steps = 100, .examples = 12'800, .loss = 0.51239});
  EXPECT_EQ(out.str(), "step 100/400  1280 examples/s  loss 0.5124  left 0:30\n");
}

TEST(Progress, MeasuresTheSpeedSinceTheLastReport) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, clock);
  clock.advance(seconds(10));
  progress.report({.steps = 1, .examples = 10, .loss = 1.0});
  clock.advance(seconds(2));
  progress.report({.steps = 2, .examples = 210, .loss = 1.0});
  EXPECT_EQ(out.str(), "step 1  1 examples/s  loss 1.0000\nstep 2  100 examples/s  loss 1.0000\n");
}

TEST(Progress, ShowsHoursAndNoRemainingTimeAtTheEnd) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, clock, {.total_steps = 3});
  clock.advance(seconds(3661));
  progress.report({.steps = 1, .examples = 0, .loss = 1.0});
  progress.report({.steps = 3, .examples = 0, .loss = 1.0});
  EXPECT_EQ(out.str(),
            "step 1/3  0 examples/s  loss 1.0000  left 2:02:02\nstep 3/3  loss 1.0000\n");
}

TEST(Progress, OverwritesOneLineOnATerminalAndEndsItOnce) {
  base::ManualClock clock;
  std::ostringstream out;
  {
    Progress progress(out, clock, {.form = ProgressForm::kRewrite});
    clock.advance(seconds(1));
    progress.report({.steps = 1, .examples = 5, .loss = 2.0});
    progress.finish();
  }
  EXPECT_EQ(out.str(), "\rstep 1  5 examples/s  loss 2.0000\x1b[K\n");
}

TEST(Progress, SkipsASecondReportOfTheSameStep) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, clock);
  progress.report({.steps = 7, .examples = 5, .loss = 2.0});
  progress.report({.steps = 7, .examples = 5, .loss = 2.0});
  EXPECT_EQ(out.str(), "step 7  loss 2.0000\n");
}

TEST(Progress, RefusesANegativeInterval) {
  base::ManualClock clock;
  std::ostringstream out;
  EXPECT_THROW(Progress(out, clock, {.interval = milliseconds(-1)}), Error);
}

}  // namespace
}  // namespace brigade::train
