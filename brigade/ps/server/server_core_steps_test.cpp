// The order of steps as a server's callers see it: waiting, lost tasks, and restarts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/ps/testing/member.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::result_of;
using concurrency::testing::start;
using concurrency::testing::still_waits;
using coordination::StepDecision;
using ::testing::ElementsAre;
using testing::LocalServers;
using testing::Member;

constexpr std::chrono::seconds kTaskLease{8};
constexpr std::chrono::milliseconds kNoEnd = std::chrono::hours(1);

std::vector<cluster::Task> tasks_of(int count) {
  std::vector<cluster::Task> tasks;
  for (int index = 0; index < count; ++index) tasks.push_back({.job = "worker", .index = index});
  return tasks;
}

JobConfig sync_of(int aggregate, int total) {
  return {.mode = UpdateMode::kSync,
          .sync = {.replicas_to_aggregate = aggregate, .total_replicas = total}};
}

/// A worker's memberships of all servers, and its steps.
class TestWorker {
 public:
  using Token = Member::Token;

  TestWorker(LocalServers& servers, int index) {
    const cluster::Task task = {.job = "worker", .index = index};
    members_.emplace_back(servers[0], task);
    for (int server = 1; server < servers.size(); ++server)
      members_.emplace_back(servers[server], task, members_[0].incarnation());
  }

  Member& at(int server) { return members_[static_cast<std::size_t>(server)]; }
  /// The program of the task is started again.
  void succeed() {
    at(0).join(0);
    for (std::size_t server = 1; server < members_.size(); ++server)
      members_[server].join(at(0).incarnation());
    pushes_ = 0;
    finished_ = 0;
    contributed_.reset();
  }

  /// Asks whether it may begin, and says again what it has contributed last.
  BeginStepReply ask() {
    return at(0).begin_step({.finished = finished_, .contribution = contributed_});
  }
  /// Counts a step as finished, and asks for the next: bounded staleness.
  bool finish_and_ask() {
    ++finished_;
    return ask().may_begin;
  }
  /// Gives all servers a gradient of `value` for its token.
  void offer(const Token& token, double value) {
    ++pushes_;
    for (Member& each : members_) each.push(pushes_, value, token);
  }
  /// The same, and says so to the coordinator.
  BeginStepReply contribute(const Token& token, double value) {
    offer(token, value);
    contributed_ = token;
    return ask();
  }
  /// The values at all servers with the decision of `reply`.
  std::vector<double> pull(const BeginStepReply& reply) {
    std::vector<double> values;
    for (Member& each : members_) values.push_back(each.pull(reply.decision));
    return values;
  }

 private:
  std::deque<Member> members_;
  std::int64_t pushes_ = 0;
  std::int64_t finished_ = 0;
  std::optional<Token> contributed_;
};

/// A job whose servers are ready, in virtual time.
struct ReadyJob {
  base::ManualClock clock;
  LocalServers servers;
  std::deque<TestWorker> workers;

  ReadyJob(const JobConfig& job, int tasks, int count = 1,
           std::shared_ptr<io::FileSystem> files = std::make_shared<io::MemoryFileSystem>())
      : servers({.servers = count,
                 .tasks = tasks_of(tasks),
                 .lease = kTaskLease,
                 .files = std::move(files),
                 .clock = &clock}) {
    for (int index = 0; index < tasks; ++index) workers.emplace_back(servers, index);
    for (int server = 0; server < count; ++server) {
      workers[0].at(server).create(job);
      workers[0].at(server).set_ready();
    }
  }

  TestWorker& operator[](int worker) { return workers[static_cast<std::size_t>(worker)]; }
  ServerCore& core(int server = 0) { return servers[server].core(); }
  /// A call of `begin_step` on a thread, until its permission.
  std::future<BeginStepReply> begin(int worker, const BeginStepRequest& request) {
    return start([&core = core(), token = (*this)[worker].at(0).token(), request] {
      return core.begin_step(token, request, Member::deadline());
    });
  }
};

TEST(ServerCoreSteps, AsynchronousWorkersAreNeverHeldUp) {
  ReadyJob job({}, 2);
  for (int step = 0; step < 5; ++step) EXPECT_TRUE(job[1].finish_and_ask());
}

TEST(ServerCoreSteps, ABoundHoldsUntilTheSlowestFinishes) {
  ReadyJob job({.mode = UpdateMode::kBounded, .staleness = 1}, 3);
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(job[worker].ask().may_begin);
  EXPECT_TRUE(job[0].finish_and_ask());
  EXPECT_TRUE(job[1].finish_and_ask());
  EXPECT_FALSE(job[0].finish_and_ask());
  EXPECT_THAT(job[0].ask().waiting_for, ElementsAre("/job:worker/task:2"));

  auto blocked = job.begin(0, {.finished = 2, .wait = kNoEnd});
  EXPECT_TRUE(still_waits(blocked));
  EXPECT_TRUE(job[2].finish_and_ask());
  EXPECT_TRUE(result_of(blocked).may_begin);
}

TEST(ServerCoreSteps, ALostOrFinishedWorkerHoldsNobodyUp) {
  for (const bool is_lost : {false, true}) {
    ReadyJob job({.mode = UpdateMode::kBounded, .staleness = 0}, 2);
    for (int worker = 0; worker < 2; ++worker) EXPECT_TRUE(job[worker].ask().may_begin);
    job.clock.advance(kTaskLease / 2);
    EXPECT_FALSE(job[0].finish_and_ask());
    auto blocked = job.begin(0, {.finished = 1, .wait = kNoEnd});
    EXPECT_TRUE(still_waits(blocked));
    if (is_lost) {
      job.clock.advance(kTaskLease / 2);  // since worker 1 was received
      job.core().tick();
    } else {
      job[1].at(0).leave();
    }
    EXPECT_TRUE(result_of(blocked).may_begin) << is_lost;

    job[1].succeed();
    EXPECT_TRUE(job[1].ask().may_begin) << "the successor starts with the slowest";
    EXPECT_FALSE(job[0].finish_and_ask()) << "and is waited for";
  }
}

TEST(ServerCoreSteps, AWaitEndsAtItsTimeAndNamesTheSlow) {
  ReadyJob job(sync_of(2, 2), 2);
  const auto token = job[0].ask().token;
  ASSERT_TRUE(token);
  EXPECT_FALSE(job[0].contribute(*token, 1).may_begin);
  auto blocked = job.begin(0, {.wait = std::chrono::seconds(2)});
  EXPECT_TRUE(still_waits(blocked));
  job.clock.advance(std::chrono::seconds(2));
  job.core().tick();
  const BeginStepReply reply = result_of(blocked);
  EXPECT_FALSE(reply.may_begin);
  EXPECT_FALSE(reply.token);
  EXPECT_THAT(reply.waiting_for, ElementsAre("/job:worker/task:1"));

  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  EXPECT_EQ(code_of([&] { job.core().begin_step(job[0].at(0).token(), {.wait = kNoEnd}, soon); }),
            ErrorCode::kDeadlineExceeded);
}

TEST(ServerCoreSteps, BlockedCallsEndWhenTheServerDoesAndWhenTheirTaskIsReplacedOrLost) {
  enum class End { kClosed, kReplaced, kLost };
  for (const End end : {End::kClosed, End::kReplaced, End::kLost}) {
    ReadyJob job(sync_of(2, 2), 2);
    EXPECT_FALSE(job[1].contribute({0, 0}, 1).may_begin);
    auto blocked = job.begin(1, {.wait = kNoEnd});
    EXPECT_TRUE(still_waits(blocked));
    if (end == End::kClosed) {
      job.core().close();
    } else if (end == End::kReplaced) {
      job[1].succeed();
    } else {
      job.clock.advance(kTaskLease);
      job.core().tick();
    }
    ASSERT_EQ(blocked.wait_for(concurrency::testing::kLong), std::future_status::ready);
    try {
      blocked.get();
      ADD_FAILURE() << "did not throw";
    } catch (const ReplacedError&) {
      EXPECT_EQ(end, End::kReplaced);
    } catch (const NotMemberError&) {
      EXPECT_EQ(end, End::kLost);
    } catch (const Error& error) {
      EXPECT_EQ(end, End::kClosed);
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    }
  }
}

TEST(ServerCoreSteps, OnlyTheFirstServerOrdersSteps) {
  ReadyJob job({}, 1, 2);
  EXPECT_EQ(code_of([&] { job[0].at(1).begin_step(); }), ErrorCode::kFailedPrecondition);
}

TEST(ServerCoreSteps, AGradientCountsOnlyIfTheServerHasIt) {
  ReadyJob job(sync_of(2, 2), 2);
  const auto claim = [&](int worker) {
    return code_of([&] { job[worker].at(0).begin_step({.contribution = Member::Token{0, 0}}); });
  };
  EXPECT_EQ(claim(1), ErrorCode::kInvalidArgument);
  job[0].contribute({0, 0}, 1);
  EXPECT_EQ(claim(1), ErrorCode::kInvalidArgument) << "the step could never be applied";
  const BeginStepReply next = job[1].contribute({0, 0}, 2);
  EXPECT_THAT(job[1].pull(next), ElementsAre(-3));
}

TEST(ServerCoreSteps, AStepThatLacksThoseThatHaveFinishedIsAnError) {
  for (const bool is_restarted : {false, true}) {
    ReadyJob job(sync_of(2, 2), 2);
    job[0].contribute({0, 0}, 1);
    std::future<BeginStepReply> waits;
    if (!is_restarted) {
      waits = job.begin(0, {.contribution = Member::Token{0, 0}, .wait = kNoEnd});
      EXPECT_TRUE(still_waits(waits));
    }
    job[1].at(0).leave();
    if (is_restarted) {
      job.servers[0].restart();
      job[0].at(0).join_again();
      waits = job.begin(0, {.contribution = Member::Token{0, 0}, .wait = kNoEnd});
    }
    const std::string message =
        base::testing::message_of([&] { result_of(waits); }, ErrorCode::kFailedPrecondition);
    EXPECT_NE(message.find("/job:worker/task:1"), std::string::npos) << message;
  }
}

TEST(ServerCoreSteps, AllServersAddTheSameGradients) {
  ReadyJob job(sync_of(2, 2), 2, 2);
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto first = job[0].ask(), second = job[1].ask();
    ASSERT_EQ(first.token, (Member::Token{step, 0}));
    ASSERT_EQ(second.token, first.token);
    const double before = -3. * static_cast<double>(step);
    EXPECT_THAT(job[0].pull(first), ElementsAre(before, before));
    EXPECT_FALSE(job[1].contribute(*second.token, 2).may_begin);
    EXPECT_THAT(job[1].pull(second), ElementsAre(before, before)) << "kept until the decision";
    const BeginStepReply next = job[0].contribute(*first.token, 1);
    ASSERT_TRUE(next.decision);
    EXPECT_EQ(*next.decision, (StepDecision{step, {{0, 0}, {1, 0}}, 1}));
    EXPECT_THAT(job[0].pull(next), ElementsAre(before - 3, before - 3));
  }
  for (const int server : {0, 1}) {
    EXPECT_EQ(job.core(server).status().step, 3);
    EXPECT_EQ(job.core(server).counters().stale, 0);
    EXPECT_EQ(job.core(server).counters().pushes, 6);
  }
}

TEST(ServerCoreSteps, AllServersUpdateAtTheRateOfTheDecision) {
  ReadyJob job(sync_of(1, 2), 2, 2);
  Member& chief = job[0].at(1);
  chief.service().set_learning_rate(chief.token(), 0.5, Member::deadline());  // ps:0 has 1 still
  const BeginStepReply first = job[0].contribute({0, 0}, 1);
  EXPECT_THAT(job[0].pull(first), ElementsAre(-1, -1));
  job.servers[1].restart();
  job[0].at(1).join_again();
  EXPECT_THAT(job[0].pull(first), ElementsAre(-1, -1)) << "as its log says";
  EXPECT_EQ(job.core(1).status().learning_rate, 0.5);
}

TEST(ServerCoreSteps, TheGradientsOfAStragglerAreDroppedAndCounted) {
  ReadyJob job(sync_of(2, 3), 3, 2);
  job[1].offer({0, 0}, 100);  // it stops before it says so
  job[2].contribute({0, 0}, 2);
  const BeginStepReply first = job[0].contribute({0, 0}, 1);
  ASSERT_TRUE(first.decision);
  EXPECT_EQ(*first.decision, (StepDecision{0, {{0, 0}, {2, 0}}, 1}));
  EXPECT_THAT(job[0].pull(first), ElementsAre(-3, -3));
  for (const int server : {0, 1}) EXPECT_EQ(job.core(server).counters().stale, 1);
  const BeginStepReply late = job[1].at(0).begin_step({.contribution = Member::Token{0, 0}});
  EXPECT_EQ(late.token, (Member::Token{1, 0})) << "it goes on with the step in progress";

  job[2].contribute({1, 0}, 2);
  const BeginStepReply second = job[0].contribute({1, 0}, 1);
  job[0].pull(second);
  EXPECT_TRUE(job[1].contribute({1, 0}, 100).may_begin) << "a step late";
  EXPECT_THAT(job[1].pull(second), ElementsAre(-6, -6));
  for (const int server : {0, 1}) EXPECT_EQ(job.core(server).counters().stale, 2);
}

TEST(ServerCoreSteps, FewerWorkersThanGradientsGiveSeveral) {
  ReadyJob job(sync_of(3, 2), 2, 2);
  EXPECT_EQ(job[0].contribute({0, 0}, 1).token, (Member::Token{0, 1}));
  EXPECT_FALSE(job[0].contribute({0, 1}, 2).may_begin);
  const BeginStepReply next = job[1].contribute({0, 0}, 4);
  EXPECT_EQ(next.token, (Member::Token{1, 0}));
  EXPECT_THAT(job[1].pull(next), ElementsAre(-7, -7));
}

TEST(ServerCoreSteps, ASuccessorGivesWhatIsMissing) {
  ReadyJob job(sync_of(2, 2), 2, 2);
  job[0].contribute({0, 0}, 1);
  job[1].offer({0, 0}, 100);
  job[1].succeed();
  EXPECT_EQ(job[1].ask().token, (Member::Token{0, 0})) << "its predecessor did not say so";
  const BeginStepReply first = job[1].contribute({0, 0}, 2);
  EXPECT_THAT(job[1].pull(first), ElementsAre(-3, -3)) << "of one life at all servers";

  job[1].contribute({1, 0}, 2);
  job[1].succeed();
  EXPECT_FALSE(job[1].ask().may_begin) << "the gradient of its predecessor counts";
  const BeginStepReply second = job[0].contribute({1, 0}, 1);
  ASSERT_TRUE(second.decision);
  EXPECT_EQ(second.decision->contributions.size(), 2U);
  EXPECT_THAT(job[1].pull(second), ElementsAre(-6, -6));
}

TEST(ServerCoreSteps, AStepIsNamedThatCannotBeMadeWithoutALostWorker) {
  ReadyJob job(sync_of(2, 2), 2);
  job.clock.advance(kTaskLease / 2);
  job[0].contribute({0, 0}, 1);
  job.clock.advance(kTaskLease / 2);
  job.core().tick();
  EXPECT_THAT(job[0].ask().waiting_for, ElementsAre("/job:worker/task:1"));
}

TEST(ServerCoreSteps, ACoordinatorThatIsRestartedWithinAStepIsGivenItsContributionsAgain) {
  ReadyJob job(sync_of(2, 2), 2, 2);
  EXPECT_FALSE(job[0].contribute({0, 0}, 1).may_begin);
  job.servers[0].restart();
  for (const int worker : {0, 1}) job[worker].at(0).join_again();
  const BeginStepReply waits = job[1].contribute({0, 0}, 2);
  EXPECT_FALSE(waits.may_begin);
  EXPECT_THAT(waits.waiting_for, ElementsAre("/job:worker/task:0"));
  const BeginStepReply next = job[0].ask();
  EXPECT_EQ(next.token, (Member::Token{1, 0}));
  EXPECT_THAT(job[0].pull(next), ElementsAre(-3, -3)) << "the gradients themselves were kept";
}

TEST(ServerCoreSteps, ASuccessorContinuesWithACoordinatorThatForgotWhatItsPredecessorGave) {
  ReadyJob job(sync_of(4, 2), 2, 2);
  EXPECT_EQ(job[0].contribute({0, 0}, 1).token, (Member::Token{0, 1}));
  job[0].succeed();
  EXPECT_EQ(job[0].ask().token, (Member::Token{0, 1}));
  EXPECT_FALSE(job[0].contribute({0, 1}, 2).may_begin);
  job.servers[0].restart();
  for (const int worker : {0, 1}) job[worker].at(0).join_again();
  EXPECT_FALSE(job[0].ask().may_begin) << "both of its gradients count";
  job[1].contribute({0, 0}, 4);
  const BeginStepReply next = job[1].contribute({0, 1}, 8);
  EXPECT_EQ(next.token, (Member::Token{1, 0}));
  EXPECT_THAT(job[1].pull(next), ElementsAre(-15, -15));
}

TEST(ServerCoreSteps, AServerThatIsRestartedKeepsTheGradientsOfTheStep) {
  ReadyJob job(sync_of(2, 2), 2, 2);
  job[0].contribute({0, 0}, 1);
  job.servers[1].restart();
  for (const int worker : {0, 1}) job[worker].at(1).join_again();
  const BeginStepReply next = job[1].contribute({0, 0}, 2);
  EXPECT_THAT(job[1].pull(next), ElementsAre(-3, -3));
  job.servers[1].restart();
  job[0].at(1).join_again();
  EXPECT_THAT(job[0].pull(next), ElementsAre(-3, -3)) << "a decision is applied once";
}

TEST(ServerCoreSteps, ADecisionThatAWorkerHasOutlivesACrash) {
  const auto disk = std::make_shared<io::CrashingFileSystem>();
  ReadyJob job(sync_of(1, 2), 2, 2, disk);
  const BeginStepReply received = job[0].contribute({0, 0}, 1);
  EXPECT_EQ(received.token, (Member::Token{1, 0}));
  job.servers[0].restart_on(disk->crash({}));  // all that was not synced is lost
  for (const int worker : {0, 1}) job[worker].at(0).join_again();
  const BeginStepReply again = job[1].ask();
  EXPECT_EQ(again.token, received.token);
  EXPECT_EQ(again.decision, received.decision);
  EXPECT_THAT(job[1].pull(again), ElementsAre(-1, -1));
}

TEST(ServerCoreSteps, NobodyReceivesADecisionThatTheDiskDidNotTake) {
  const auto disk =
      std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
  ReadyJob job(sync_of(2, 2), 2, 1, disk);
  job[0].contribute({0, 0}, 1);
  job[1].offer({0, 0}, 2);
  disk->inject({.length = io::FaultLength::kEverAfter});
  EXPECT_THROW(job[1].at(0).begin_step({.contribution = Member::Token{0, 0}}), Error);
  try {
    const BeginStepReply reply = job[0].ask();
    EXPECT_FALSE(reply.may_begin || reply.token || reply.decision);
  } catch (const Error&) {  // it tried the disk again
  }
  disk->heal();
  job.servers[0].restart();
  for (const int worker : {0, 1}) job[worker].at(0).join_again();
  EXPECT_FALSE(job[0].ask().may_begin) << "the decision was forgotten, and its gradients were not";
  const BeginStepReply next = job[1].at(0).begin_step({.contribution = Member::Token{0, 0}});
  EXPECT_EQ(next.token, (Member::Token{1, 0}));
  EXPECT_THAT(job[1].pull(next), ElementsAre(-3));
}

}  // namespace
}  // namespace brigade::ps
