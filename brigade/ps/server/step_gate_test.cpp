#include "brigade/ps/server/step_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

using coordination::Contribution;
using coordination::StepDecision;
using Token = coordination::StepDecider::Token;
using ::testing::ElementsAre;

std::vector<std::string> workers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(base::str_cat("w", i));
  return names;
}

JobConfig bounded(std::int64_t staleness) {
  return {.mode = UpdateMode::kBounded, .staleness = staleness};
}
JobConfig synchronous(int aggregate, int total) {
  return {.mode = UpdateMode::kSync,
          .sync = {.replicas_to_aggregate = aggregate, .total_replicas = total}};
}

const std::set<int> kAllThree = {0, 1, 2};

/// Whether the worker, which has finished so many steps, may begin the next.
bool begins(StepGate& gate, int worker, std::int64_t finished) {
  gate.report(worker, {.finished = finished});
  return gate.reply(worker, kAllThree).may_begin;
}

std::optional<Token> token_of(const StepGate& gate, int worker) {
  return gate.reply(worker, kAllThree).token;
}

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidArgument;
  }
  return false;
}

/// Contributes, and confirms the step if that decides it.
std::optional<StepDecision> contribute(StepGate& gate, int worker, const Token& token) {
  gate.report(worker, {.contribution = token});
  const auto decision = gate.unconfirmed();
  if (decision) gate.confirm(*decision);
  return decision;
}

TEST(StepGate, AsynchronousWorkersNeverWait) {
  StepGate gate({}, workers(3), 0, std::nullopt);
  for (std::int64_t step = 0; step < 100; ++step) EXPECT_TRUE(begins(gate, 1, step));
  EXPECT_TRUE(begins(gate, 0, 0));
}

TEST(StepGate, NoWorkerIsFurtherAheadThanTheBound) {
  constexpr std::int64_t kBound = 2;
  StepGate gate(bounded(kBound), workers(3), 0, std::nullopt);
  std::array<std::int64_t, 3> finished = {0, 0, 0};
  std::array<std::int64_t, 3> reported = {0, 0, 0};
  for (int worker = 0; worker < 3; ++worker) ASSERT_TRUE(begins(gate, worker, 0));
  // Worker 0 asks six times as often as worker 2, and a worker that may begin always finishes.
  for (int round = 0; round < 200; ++round) {
    const int worker = round % 10 < 6 ? 0 : round % 10 < 9 ? 1 : 2;
    auto& steps = finished[static_cast<std::size_t>(worker)];
    reported[static_cast<std::size_t>(worker)] = steps;
    const bool may = begins(gate, worker, steps);
    EXPECT_EQ(may, steps - *std::ranges::min_element(reported) <= kBound) << "round " << round;
    if (may) ++steps;
  }
  EXPECT_EQ(finished[2], 20) << "the slowest never waits";
}

TEST(StepGate, ABoundOfZeroIsLockstep) {
  StepGate gate(bounded(0), workers(3), 0, std::nullopt);
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(begins(gate, worker, 0));
  EXPECT_FALSE(begins(gate, 0, 1));
  EXPECT_FALSE(begins(gate, 2, 1));
  EXPECT_THAT(gate.reply(0, kAllThree).waiting_for, ElementsAre("w1"));
  EXPECT_TRUE(gate.report(1, {.finished = 1})) << "others may begin now";
  EXPECT_FALSE(gate.report(1, {.finished = 1}));
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(gate.reply(worker, kAllThree).may_begin);
}

TEST(StepGate, SayingAgainWhatIsFinishedChangesNothing) {
  StepGate gate(bounded(0), workers(2), 0, std::nullopt);
  EXPECT_TRUE(begins(gate, 0, 0));
  EXPECT_TRUE(begins(gate, 1, 0));
  for (int time = 0; time < 3; ++time) EXPECT_FALSE(begins(gate, 0, 1));
  EXPECT_FALSE(begins(gate, 0, 0)) << "an old request that arrives late takes nothing back";
  EXPECT_TRUE(begins(gate, 1, 1));
  EXPECT_TRUE(begins(gate, 0, 1));
  EXPECT_TRUE(is_refused([&] { begins(gate, 0, 3); })) << "it never asked for the step between";
  EXPECT_TRUE(is_refused([&] { begins(gate, 0, -1); }));
}

TEST(StepGate, NobodyWaitsForALostWorkerAndItsSuccessorStartsWithTheSlowest) {
  StepGate gate(bounded(1), workers(3), 0, std::nullopt);
  for (int worker = 0; worker < 3; ++worker) ASSERT_TRUE(begins(gate, worker, 0));
  EXPECT_TRUE(begins(gate, 0, 1));
  EXPECT_TRUE(begins(gate, 1, 1));
  EXPECT_FALSE(begins(gate, 0, 2));
  EXPECT_THAT(gate.reply(0, kAllThree).waiting_for, ElementsAre("w2"));
  gate.leave(2);
  EXPECT_TRUE(gate.reply(0, {0, 1}).may_begin);
  EXPECT_TRUE(begins(gate, 1, 2));

  EXPECT_TRUE(begins(gate, 2, 0)) << "the successor counts its own steps";
  EXPECT_TRUE(begins(gate, 0, 3)) << "worker 2 is level with the slowest, so nobody is held up";
  EXPECT_FALSE(begins(gate, 0, 4));
}

TEST(StepGate, ARestartedGateContinuesFromWhatWorkersSay) {
  StepGate gate(bounded(0), workers(2), 0, std::nullopt);
  EXPECT_TRUE(begins(gate, 0, 17));
  EXPECT_TRUE(begins(gate, 1, 16));
  EXPECT_FALSE(begins(gate, 0, 18));
  EXPECT_TRUE(begins(gate, 1, 17)) << "both began level";
}

TEST(StepGate, AStepNeedsTheGradientsOfAllWithoutBackups) {
  StepGate gate(synchronous(2, 2), workers(2), 40, std::nullopt);
  EXPECT_EQ(token_of(gate, 0), (Token{40, 0}));
  EXPECT_FALSE(gate.reply(0, {0, 1}).decision) << "no step was decided before";
  EXPECT_FALSE(contribute(gate, 1, {40, 0}));
  const BeginStepReply waits = gate.reply(1, {0, 1});
  EXPECT_FALSE(waits.may_begin);
  EXPECT_THAT(waits.waiting_for, ElementsAre("w0"));
  const auto decision = contribute(gate, 0, {40, 0});
  ASSERT_TRUE(decision);
  EXPECT_EQ(*decision, (StepDecision{40, {{0, 0}, {1, 0}}}));
  for (const int worker : {0, 1}) {
    const BeginStepReply next = gate.reply(worker, {0, 1});
    EXPECT_EQ(next.token, (Token{41, 0}));
    EXPECT_EQ(next.decision, decision);
  }
}

TEST(StepGate, NobodyReceivesADecisionThatIsNotOnTheDisk) {
  StepGate gate(synchronous(1, 2), workers(2), 0, std::nullopt);
  gate.report(0, {.contribution = Token{0, 0}});
  const auto decision = gate.unconfirmed();
  ASSERT_TRUE(decision);
  for (const int worker : {0, 1}) {
    const BeginStepReply reply = gate.reply(worker, {0, 1});
    EXPECT_FALSE(reply.may_begin);
    EXPECT_FALSE(reply.token);
    EXPECT_FALSE(reply.decision);
  }
  EXPECT_TRUE(is_refused([&] {
    gate.report(1, {.contribution = Token{1, 0}});
  })) << "nobody can have a token of the next step";
  EXPECT_EQ(gate.unconfirmed(), decision);
  gate.confirm({.step = 7, .contributions = {}});
  EXPECT_EQ(gate.unconfirmed(), decision) << "another decision";
  gate.confirm(*decision);
  gate.confirm(*decision);
  EXPECT_EQ(gate.reply(1, {0, 1}).decision, decision);
}

TEST(StepGate, AStragglerDoesNotHoldUpAStepWithABackup) {
  StepGate gate(synchronous(2, 3), workers(3), 0, std::nullopt);
  for (std::int64_t step = 0; step < 5; ++step) {
    EXPECT_FALSE(contribute(gate, 2, {step, 0}));
    const auto decision = contribute(gate, 0, {step, 0});
    ASSERT_TRUE(decision);
    EXPECT_THAT(decision->contributions, ElementsAre(Contribution{0, 0}, Contribution{2, 0}));
  }
  EXPECT_FALSE(contribute(gate, 1, {0, 0})) << "too late";
  EXPECT_EQ(token_of(gate, 1), (Token{5, 0})) << "it goes on with the step in progress";
}

TEST(StepGate, FewerWorkersThanGradientsComputeSeveral) {
  StepGate gate(synchronous(3, 2), workers(2), 0, std::nullopt);
  EXPECT_FALSE(contribute(gate, 0, {0, 0}));
  EXPECT_EQ(token_of(gate, 0), (Token{0, 1}));
  EXPECT_FALSE(contribute(gate, 0, {0, 1}));
  EXPECT_FALSE(token_of(gate, 0));
  const auto decision = contribute(gate, 1, {0, 0});
  ASSERT_TRUE(decision);
  EXPECT_THAT(decision->contributions,
              ElementsAre(Contribution{0, 0}, Contribution{0, 1}, Contribution{1, 0}));
}

TEST(StepGate, AContributionCountsOnceAndOutlivesItsWorker) {
  StepGate gate(synchronous(3, 3), workers(3), 0, std::nullopt);
  for (int time = 0; time < 3; ++time) EXPECT_FALSE(contribute(gate, 0, {0, 0}));
  EXPECT_FALSE(contribute(gate, 1, {0, 0}));
  gate.leave(1);  // and its successor joins
  EXPECT_FALSE(token_of(gate, 1)) << "the gradient of its predecessor counts";
  gate.leave(2);
  EXPECT_EQ(token_of(gate, 2), (Token{0, 0})) << "its predecessor has given nothing";
  EXPECT_TRUE(contribute(gate, 2, {0, 0}));
}

TEST(StepGate, SaysForWhomASynchronousStepWaits) {
  StepGate gate(synchronous(2, 3), workers(3), 0, std::nullopt);
  contribute(gate, 0, {0, 0});
  EXPECT_THAT(gate.reply(0, {0, 1, 2}).waiting_for, ElementsAre("w1", "w2"));
  EXPECT_THAT(gate.reply(0, {0, 2}).waiting_for, ElementsAre("w2")) << "one is enough";
  EXPECT_THAT(gate.reply(0, {0}).waiting_for, ElementsAre("w1", "w2"))
      << "without a lost one the step cannot be made";
}

TEST(StepGate, NobodyWaitsForTasksThatHaveFinished) {
  StepGate gate(synchronous(2, 3), workers(3), 0, std::nullopt);
  EXPECT_TRUE(gate.reply(0, {0}, {1, 2}).may_begin) << "it may be done with its steps";
  contribute(gate, 0, {0, 0});
  EXPECT_THAT(gate.reply(0, {0, 2}, {1}).waiting_for, ElementsAre("w2"));
  EXPECT_THAT(gate.reply(0, {0}, {1}).waiting_for, ElementsAre("w2")) << "it was lost";
  try {
    gate.reply(0, {0}, {1, 2});
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_NE(std::string(error.what()).find("w1, w2"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(contribute(gate, 2, {0, 0}));
}

TEST(StepGate, ARestartedGateHandsOutTheLastDecisionAndTakesContributionsAgain) {
  const StepDecision last = {6, {{0, 0}, {1, 0}}};
  StepGate gate(synchronous(2, 2), workers(2), 7, last);
  const BeginStepReply reply = gate.reply(1, {0, 1});
  EXPECT_EQ(reply.token, (Token{7, 0}));
  EXPECT_EQ(reply.decision, last);
  EXPECT_FALSE(contribute(gate, 0, {6, 0})) << "decided before the restart";
  EXPECT_FALSE(contribute(gate, 0, {7, 0})) << "said again";
  EXPECT_TRUE(contribute(gate, 1, {7, 0}));

  StepGate restored(synchronous(2, 2), workers(2), 1000, last);
  EXPECT_FALSE(restored.reply(0, {0, 1}).decision) << "a decision of other values";
}

TEST(StepGate, WhatAWorkerCannotHaveDoneIsRefused) {
  StepGate sync(synchronous(2, 2), workers(2), 3, std::nullopt);
  for (const Token& token : {Token{4, 0}, Token{3, 1}, Token{3, -1}})
    EXPECT_TRUE(is_refused([&] { sync.report(0, {.contribution = token}); }));
  EXPECT_EQ(token_of(sync, 0), (Token{3, 0})) << "nothing was counted";
  StepGate async({}, workers(2), 0, std::nullopt);
  EXPECT_TRUE(is_refused([&] { async.report(0, {.contribution = Token{0, 0}}); }));
}

}  // namespace
}  // namespace brigade::ps
