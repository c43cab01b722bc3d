#include "brigade/comm/step_progress.h"

#include <gtest/gtest.h>

#include <memory>

namespace brigade::comm {
namespace {

using Verdict = StepComparison::Verdict;

CallStamp inside(std::uint64_t run, std::uint64_t failed = CallStamp::kNone) {
  return {.run = run, .step = run, .failed_run = failed, .is_inside = 1};
}
CallStamp before(std::uint64_t run, std::uint64_t failed = CallStamp::kNone) {
  return {.run = run, .step = run, .failed_run = failed};
}

Verdict verdict_on(const std::vector<CallStamp>& stamps) {
  return compare_steps(stamps).verdict;
}

TEST(StepProgress, ARankThatFailedInTheOthersStepEndsIt) {
  EXPECT_EQ(verdict_on({inside(5), inside(6, 5)}), Verdict::kAbandon);
  EXPECT_EQ(verdict_on({before(6, 5), inside(5), inside(5)}), Verdict::kAbandon);
  EXPECT_EQ(verdict_on({inside(7, 5), inside(5), before(6, 5)}), Verdict::kAbandon);
  EXPECT_EQ(compare_steps({inside(7, 5), inside(5)}).lowest, 5u);
}

TEST(StepProgress, FailuresThatAllHavePassedAreForgotten) {
  EXPECT_EQ(verdict_on({inside(6, 5), inside(6)}), Verdict::kTogether);
  EXPECT_EQ(verdict_on({inside(7, 5), inside(6)}), Verdict::kRepeat);
}

TEST(StepProgress, DifferentStepsHaveDiverged) {
  EXPECT_EQ(verdict_on({inside(5), inside(6)}), Verdict::kDiverged);
  EXPECT_EQ(verdict_on({inside(5), inside(7, 6)}), Verdict::kDiverged);
  EXPECT_EQ(verdict_on({inside(5), inside(6, 5), inside(6)}), Verdict::kDiverged);
  EXPECT_EQ(verdict_on({before(5), inside(6, 5)}), Verdict::kDiverged);
}

TEST(StepProgress, StampsMatchIfOnlyPastFailuresDiffer) {
  const CallStamp stamp = inside(5);
  EXPECT_TRUE(stamp.matches(inside(5, 4)));
  EXPECT_FALSE(stamp.matches(before(5)));
  CallStamp other = stamp;
  other.step = 3;  // restored here alone
  EXPECT_FALSE(stamp.matches(other));
  other = stamp;
  other.updates = 1;
  EXPECT_FALSE(stamp.matches(other));
  other = stamp;
  other.micro_batches = 1;
  EXPECT_FALSE(stamp.matches(other));
  other = stamp;
  other.purpose = {.use = CallPurpose::Use::kGradients, .optimizer = 0, .bucket = 1};
  EXPECT_FALSE(stamp.matches(other));
  EXPECT_EQ(describe(other),
            "in step 5 (0 updates made), for the gradients of optimizer 0, bucket 1");
}

TEST(StepProgress, AFailedStepCountsAndIsNamedUntilItIsForgotten) {
  StepProgress progress;
  progress.move_to(5);
  progress.begin_step();
  EXPECT_EQ(progress.stamp().is_inside, 1);
  progress.fail_step("boom");
  progress.end_step();
  progress.skip_step("no data");
  EXPECT_EQ(progress.step(), 7u);
  EXPECT_EQ(progress.stamp().run, 2u);
  EXPECT_EQ(progress.stamp().failed_run, 0u);
  EXPECT_EQ(progress.reason(), "boom");
  progress.forget_failures_before(1);
  EXPECT_EQ(progress.stamp().failed_run, 1u);
  EXPECT_EQ(progress.reason(), "no data");
  progress.forget_failures_before(2);
  EXPECT_EQ(progress.stamp().failed_run, CallStamp::kNone);
}

TEST(StepProgress, AnAbandonedStepThrowsUntilItEndsAndIsNoFailureOfThisProcess) {
  StepProgress progress;
  progress.begin_step();
  progress.abandon(StepAbandoned(0, {1}, "rank 1 fell over"));
  EXPECT_THROW(progress.throw_if_abandoned(), StepAbandoned);
  progress.fail_step("released");
  progress.end_step();
  EXPECT_NO_THROW(progress.throw_if_abandoned());
  EXPECT_EQ(progress.stamp().failed_run, CallStamp::kNone);
}

TEST(StepProgress, OneThatIsLedCountsAlikeAndRemembersItsOwnFailures) {
  StepProgress all;
  const auto some = std::make_shared<StepProgress>();
  all.lead(some);
  all.move_to(7);
  all.begin_step();
  all.count_update();
  all.add_micro_batches(2);
  {
    const PurposeScope purpose(&all, {.use = CallPurpose::Use::kInput});
    EXPECT_TRUE(some->stamp().matches(all.stamp()));
    EXPECT_EQ(some->purpose().use, CallPurpose::Use::kInput);
  }
  some->abandon(StepAbandoned(7, {1}, "another one failed"));
  all.fail_step("another one failed");
  all.end_step();
  EXPECT_TRUE(some->stamp().matches(all.stamp()));
  EXPECT_EQ(all.stamp().failed_run, 0u);
  EXPECT_EQ(some->stamp().failed_run, CallStamp::kNone);  // those that it sees know
  all.skip_step("no input");
  all.forget_failures_before(2);
  EXPECT_EQ(some->stamp().failed_run, 1u);
  EXPECT_EQ(some->step(), 9u);
}

TEST(StepProgress, EndlessFailuresTakeBoundedMemory) {
  StepProgress progress;
  for (int step = 0; step < 1000; ++step) progress.skip_step("again");
  EXPECT_GT(progress.stamp().failed_run, 900u);
}

TEST(PurposeScope, RestoresThePreviousPurpose) {
  StepProgress progress;
  {
    const PurposeScope outer(&progress, {.use = CallPurpose::Use::kInput});
    {
      const PurposeScope inner(&progress, {.use = CallPurpose::Use::kGradients, .optimizer = 2});
      EXPECT_EQ(progress.stamp().purpose.optimizer, 2);
    }
    EXPECT_EQ(progress.stamp().purpose.use, CallPurpose::Use::kInput);
  }
  EXPECT_EQ(progress.stamp().purpose, CallPurpose{});
  const PurposeScope nobodys(nullptr, {.use = CallPurpose::Use::kInput});
}

}  // namespace
}  // namespace brigade::comm
