#include "brigade/coordination/step_decider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

StepDecider decider(int replicas_to_aggregate, int total_replicas) {
  return StepDecider(
      {.replicas_to_aggregate = replicas_to_aggregate, .total_replicas = total_replicas});
}

TEST(StepDecider, AStepIsDecidedByWorkerNotByArrival) {
  StepDecider steps = decider(3, 3);
  for (const int worker : {2, 0}) {
    EXPECT_EQ(steps.contribute(worker, *steps.token(worker)), ContributionVerdict::kAccepted);
    EXPECT_EQ(steps.decide(), std::nullopt);
  }
  EXPECT_EQ(steps.missing(), 1);
  steps.contribute(1, *steps.token(1));
  EXPECT_EQ(steps.decide(), (StepDecision{0, {{0, 0}, {1, 0}, {2, 0}}}));
  EXPECT_EQ(steps.step(), 1);
}

TEST(StepDecider, AFastWorkerWaitsForTheDecision) {
  StepDecider steps = decider(2, 2);
  steps.contribute(0, *steps.token(0));
  EXPECT_EQ(steps.token(0), std::nullopt) << "it cannot give worker 1's gradient";
  EXPECT_EQ(steps.token(1), (StepDecider::Token{0, 0}));
  steps.contribute(1, {0, 0});
  steps.decide();
  EXPECT_EQ(steps.token(0), (StepDecider::Token{1, 0}));
}

TEST(StepDecider, BackupWorkersReplaceTheSlowest) {
  StepDecider steps = decider(2, 3);
  const auto late = *steps.token(1);
  steps.contribute(2, {0, 0});
  steps.contribute(0, {0, 0});
  EXPECT_EQ(steps.decide(), (StepDecision{0, {{0, 0}, {2, 0}}}));
  EXPECT_EQ(steps.contribute(1, late), ContributionVerdict::kStale);
  EXPECT_EQ(steps.missing(), 2) << "a stale gradient counts for no step";
  EXPECT_EQ(steps.token(1), (StepDecider::Token{1, 0}));
}

TEST(StepDecider, WithFewerWorkersThanGradientsEachComputesSeveral) {
  StepDecider steps = decider(4, 2);
  EXPECT_EQ(steps.quota(), 2);
  steps.contribute(0, *steps.token(0));
  EXPECT_EQ(steps.token(0), (StepDecider::Token{0, 1}));
  steps.contribute(0, *steps.token(0));
  EXPECT_EQ(steps.token(0), std::nullopt);
  steps.contribute(1, {0, 0});
  steps.contribute(1, {0, 1});
  EXPECT_EQ(steps.decide(), (StepDecision{0, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}}));
}

TEST(StepDecider, ARepeatedContributionCountsOnce) {
  StepDecider steps = decider(2, 2);
  steps.contribute(0, {0, 0});
  EXPECT_EQ(steps.contribute(0, {0, 0}), ContributionVerdict::kDuplicate);
  EXPECT_EQ(steps.decide(), std::nullopt);
  EXPECT_EQ(steps.missing(), 1);
}

TEST(StepDecider, RejectsWhatNoTokenAllows) {
  StepDecider steps = decider(4, 2);
  EXPECT_THROW(steps.contribute(0, {1, 0}), Error) << "a step that has not begun";
  EXPECT_THROW(steps.contribute(0, {0, 1}), Error) << "the second before the first";
  EXPECT_THROW(steps.contribute(0, {0, 2}), Error) << "more than its quota";
  EXPECT_THROW(steps.contribute(-1, {0, 0}), Error);
  EXPECT_THROW(decider(0, 1), Error);
  EXPECT_THROW(decider(1, 0), Error);
  EXPECT_EQ(steps.missing(), 4);
}

TEST(StepDecider, SavedAndRestoredItContinuesWithinTheStep) {
  StepDecider steps = decider(2, 3);
  steps.contribute(1, {0, 0});
  steps.contribute(2, {0, 0});
  steps.decide();
  steps.contribute(2, {1, 0});
  StepDecider restored = decider(2, 3);
  restored.restore(steps.save());
  EXPECT_EQ(restored.save(), steps.save());
  EXPECT_EQ(restored.contribute(2, {1, 0}), ContributionVerdict::kDuplicate);
  restored.contribute(0, {1, 0});
  EXPECT_EQ(restored.decide(), (StepDecision{1, {{0, 0}, {2, 0}}}));

  io::StateTree twice = steps.save();
  twice["contributions"].push_back(twice.at("contributions", 0));
  EXPECT_THROW(restored.restore(twice), Error);
  EXPECT_EQ(restored.step(), 2);
}

TEST(StepDecider, EachStepHasAsManyGradientsAsAskedForWhateverHappens) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int aggregate = 1 + static_cast<int>(random() % 4);
    const int total = 1 + static_cast<int>(random() % 4);
    StepDecider steps = decider(aggregate, total);
    std::map<int, StepDecider::Token> computing;
    std::int64_t decided = 0;
    for (int i = 0; i < 400; ++i) {
      const int worker = static_cast<int>(random() % total);
      if (const auto busy = computing.find(worker); busy != computing.end()) {
        steps.contribute(worker, busy->second);
        if (random() % 3 != 0) computing.erase(busy);  // otherwise it arrives again
      } else if (const auto token = steps.token(worker)) {
        computing[worker] = *token;
      }
      const auto decision = steps.decide();
      if (!decision) continue;
      ASSERT_EQ(decision->step, decided++) << "seed " << seed;
      ASSERT_EQ(decision->contributions.size(), aggregate);
      ASSERT_TRUE(std::ranges::is_sorted(decision->contributions));
    }
    ASSERT_GT(decided, 20) << "seed " << seed << ": somebody can always contribute";
  }
}

}  // namespace
}  // namespace brigade::coordination
