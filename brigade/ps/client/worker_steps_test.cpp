#include "brigade/ps/client/worker_steps.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/ps/testing/empty_service.h"

namespace brigade::ps {
namespace {

using std::chrono::milliseconds;
using Token = WorkerSteps::Token;

/// Records its calls, and answers with `reply`.
class Coordinator final : public testing::EmptyService {
 public:
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time) override {
    if (is_down) throw Error(ErrorCode::kUnavailable, "down");
    memberships.push_back(token);
    requests.push_back(request);
    return reply;
  }

  std::vector<std::optional<Token>> contributions() const {
    std::vector<std::optional<Token>> contributions;
    for (const BeginStepRequest& each : requests) contributions.push_back(each.contribution);
    return contributions;
  }

  BeginStepReply reply;
  bool is_down = false;
  std::vector<std::string> memberships;
  std::vector<BeginStepRequest> requests;
};

ParameterService::Time soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

/// Begins and finishes a step with this token.
void work(WorkerSteps& steps, Coordinator& coordinator, const std::string& membership,
          const Token& token) {
  coordinator.reply = {.may_begin = true, .token = token};
  EXPECT_TRUE(steps.take(steps.ask(coordinator, membership, milliseconds(10), soon())));
  EXPECT_EQ(steps.token(), token);
  steps.finish();
}

TEST(WorkerSteps, AsynchronousStepsNeedNoPermission) {
  WorkerSteps steps(UpdateMode::kAsync);
  EXPECT_TRUE(steps.may_push());
  steps.finish();
  EXPECT_TRUE(steps.may_push());
}

TEST(WorkerSteps, ReportsHowManyStepsItHasFinished) {
  Coordinator coordinator;
  WorkerSteps steps(UpdateMode::kBounded);
  EXPECT_FALSE(steps.may_push());
  EXPECT_FALSE(steps.take(steps.ask(coordinator, "a", milliseconds(10), soon())));
  EXPECT_FALSE(steps.may_push());
  coordinator.reply.may_begin = true;
  EXPECT_TRUE(steps.take(steps.ask(coordinator, "a", milliseconds(10), soon())));
  EXPECT_TRUE(steps.may_push());
  steps.finish();
  EXPECT_FALSE(steps.may_push());
  steps.ask(coordinator, "a", milliseconds(10), soon());
  EXPECT_EQ(coordinator.requests[1].finished, 0);
  EXPECT_EQ(coordinator.requests[2].finished, 1);
  EXPECT_EQ(coordinator.requests[2].wait, milliseconds(10));
}

TEST(WorkerSteps, DoesNotWaitUpToTheDeadline) {
  Coordinator coordinator;
  WorkerSteps steps(UpdateMode::kBounded);
  steps.ask(coordinator, "a", milliseconds(1000),
            std::chrono::steady_clock::now() + milliseconds(100));
  EXPECT_LE(coordinator.requests[0].wait, milliseconds(50));
  steps.ask(coordinator, "a", milliseconds(1000),
            std::chrono::steady_clock::now() - milliseconds(100));
  EXPECT_EQ(coordinator.requests[1].wait, milliseconds(0));
}

TEST(WorkerSteps, ANewCoordinatorHearsOfAllContributionsOfTheStep) {
  Coordinator coordinator;
  WorkerSteps steps(UpdateMode::kSync);
  const Token first{.step = 4, .index = 0}, second{.step = 4, .index = 1};
  work(steps, coordinator, "a", first);
  work(steps, coordinator, "a", second);
  coordinator.requests.clear();

  coordinator.is_down = true;
  EXPECT_EQ(base::testing::code_of([&] { steps.ask(coordinator, "b", milliseconds(1), soon()); }),
            ErrorCode::kUnavailable);
  coordinator.is_down = false;
  steps.ask(coordinator, "b", milliseconds(1), soon());
  steps.ask(coordinator, "b", milliseconds(1), soon());
  EXPECT_EQ(coordinator.contributions(),
            (std::vector<std::optional<Token>>{first, second, second}));
}

TEST(WorkerSteps, ANewStepForgetsTheContributionsBeforeIt) {
  Coordinator coordinator;
  WorkerSteps steps(UpdateMode::kSync);
  work(steps, coordinator, "a", {.step = 4, .index = 0});
  work(steps, coordinator, "a", {.step = 5, .index = 0});
  coordinator.requests.clear();
  steps.ask(coordinator, "b", milliseconds(1), soon());
  EXPECT_EQ(coordinator.contributions(),
            (std::vector<std::optional<Token>>{Token{.step = 5, .index = 0}}));
}

TEST(WorkerSteps, KeepsTheLatestDecision) {
  WorkerSteps steps(UpdateMode::kSync);
  EXPECT_FALSE(steps.decision());
  const auto decide = [&](std::int64_t step) {
    steps.take({.may_begin = true,
                .token = Token{.step = step + 1, .index = 0},
                .decision = coordination::StepDecision{.step = step, .contributions = {}}});
  };
  decide(3);
  decide(2);
  EXPECT_EQ(steps.decision()->step, 3);
  steps.take({.may_begin = true, .token = Token{.step = 4, .index = 1}});
  EXPECT_EQ(steps.decision()->step, 3);
}

}  // namespace
}  // namespace brigade::ps
