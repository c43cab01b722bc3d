#include "brigade/concurrency/stage_timeline.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::concurrency {
namespace {

using TimelineMoment = std::chrono::steady_clock::time_point;

TimelineMoment at_ms(int ms) {
  return TimelineMoment(std::chrono::hours(1)) + std::chrono::milliseconds(ms);
}

StageSpan forward_span(int micro_batch, int begin, int end) {
  return {StageWork::kForward, micro_batch, at_ms(begin), at_ms(end)};
}
StageSpan backward_span(int micro_batch, int begin, int end) {
  return {StageWork::kBackward, micro_batch, at_ms(begin), at_ms(end)};
}

/// Two equal stages and two micro-batches, 10 ms a pass: the bubble is 1 / 3.
StageTimeline two_by_two() {
  return {{{forward_span(0, 0, 10), forward_span(1, 10, 20), backward_span(0, 30, 40),
            backward_span(1, 50, 60)},
           {forward_span(0, 10, 20), backward_span(0, 20, 30), forward_span(1, 30, 40),
            backward_span(1, 40, 50)}}};
}

TEST(StageTimeline, TheBubbleIsTheTimeInWhichStagesComputeNoPass) {
  const StageTimeline timeline = two_by_two();
  EXPECT_EQ(timeline.duration(), std::chrono::milliseconds(60));
  EXPECT_DOUBLE_EQ(timeline.bubble(), 1.0 / 3.0);
  ASSERT_EQ(timeline.bubbles().size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.bubbles()[0], 1.0 / 3.0);
}

TEST(StageTimeline, UpdatesAreNoPasses) {
  StageTimeline timeline = two_by_two();
  timeline.stages[0].push_back({StageWork::kOther, 0, at_ms(60), at_ms(90)});
  EXPECT_EQ(timeline.duration(), std::chrono::milliseconds(60));
  EXPECT_DOUBLE_EQ(timeline.bubble(), 1.0 / 3.0);
}

TEST(StageTimeline, WorkThatPassesHaveLeftIsNoWaiting) {
  StageTimeline timeline = two_by_two();
  timeline.stages[0].push_back({StageWork::kWeightGradient, 1, at_ms(20), at_ms(30)});
  timeline.stages[1].push_back({StageWork::kSum, 1, at_ms(50), at_ms(80)});
  EXPECT_EQ(timeline.duration(), std::chrono::milliseconds(80));
  EXPECT_DOUBLE_EQ(timeline.bubbles()[0], 30.0 / 80.0);
  EXPECT_DOUBLE_EQ(timeline.bubbles()[1], 10.0 / 80.0);
  const std::string text = timeline.text(16);
  EXPECT_NE(text.find("stage 0  0011BBaa..bb....  bubble 0.38"), std::string::npos) << text;
  EXPECT_NE(text.find("stage 1  ..00aa11bb++++++  bubble 0.12"), std::string::npos) << text;
  EXPECT_EQ(to_string(StageWork::kWeightGradient), "weight gradient");
}

TEST(StageTimeline, WithoutPassesThereIsNothing) {
  const StageTimeline timeline{{{}, {}}};
  EXPECT_EQ(timeline.duration().count(), 0);
  EXPECT_EQ(timeline.bubble(), 0.0);
  EXPECT_EQ(StageTimeline().bubble(), 0.0);
  EXPECT_NE(timeline.text(3).find("stage 1  ...  bubble 0.00"), std::string::npos);
}

TEST(StageTimeline, AsTextItHasALineForEachStage) {
  EXPECT_EQ(
      two_by_two().text(12),
      "stage 0  0011..aa..bb  bubble 0.33\n"
      "stage 1  ..00aa11bb..  bubble 0.33\n"
      "60.00 ms, bubble 0.33; digits: forward, letters: backward, capitals: weight gradients, "
      "+: sums, dots: waiting\n");
  EXPECT_THROW(two_by_two().text(0), Error);
}

}  // namespace
}  // namespace brigade::concurrency
