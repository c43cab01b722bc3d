#include "brigade/data/runtime/stage_stats.h"

#include <gtest/gtest.h>

namespace brigade::data {
namespace {

StageStats source() {
  return {.name = "range(9)", .elements = 90, .elements_per_second = 45, .busy = 0.02};
}

StageStats map(double busy) {
  return {.name = "decode",
          .elements = 80,
          .elements_per_second = 40,
          .threads = 2,
          .capacity = 4,
          .queue_depth = 0.5,
          .busy = busy,
          .stall = 0.5};
}

TEST(StageStats, DescribeGivesATableAndTheBottleneck) {
  const StageStats stats[] = {source(), map(0.97)};
  EXPECT_EQ(describe(stats),
            "step      elements  per second  threads  ready   busy  stall  starved\n"
            "range(9)        90          45        -      -  2.0 %      -    0.0 %\n"
            "decode          80          40        2  0.5/4   97 %   50 %    0.0 %\n"
            "decode is the bottleneck: 2 threads busy 97 %\n");
}

TEST(StageStats, NamesAStepWithoutThreads) {
  StageStats busy_source = source();
  busy_source.busy = 0.9;
  const StageStats stats[] = {busy_source, map(0.1)};
  EXPECT_EQ(bottleneck(stats), "range(9) is the bottleneck: busy 90 %");
}

TEST(StageStats, ReportsThatTheInputKeepsUp) {
  StageStats fast = map(0.99);
  fast.stall = 0.001;
  const StageStats stats[] = {source(), fast};
  EXPECT_EQ(bottleneck(stats), "the input keeps up: its consumer waited 0.1 % of the time");
}

TEST(StageStats, ReportsThreadsWithoutACore) {
  StageStats preempted = map(0.98);
  preempted.delayed = 0.5;
  const StageStats stats[] = {source(), preempted};
  EXPECT_EQ(bottleneck(stats),
            "decode is the bottleneck: 2 threads busy 98 %; no core free 50 % of the time");
  StageStats waiting = map(0.6);
  waiting.delayed = 0.6;
  StageStats working = source();
  working.busy = 0.3;
  const StageStats overloaded[] = {working, waiting};
  EXPECT_EQ(bottleneck(overloaded),
            "range(9) works most: busy 30 %; no core free 60 % of the time");
  const StageStats idle[] = {source(), map(0.3)};
  EXPECT_EQ(bottleneck(idle),
            "decode works most: 2 threads busy 30 %; threads wait for each other");
  EXPECT_EQ(bottleneck({}), "no step was measured");
}

}  // namespace
}  // namespace brigade::data
