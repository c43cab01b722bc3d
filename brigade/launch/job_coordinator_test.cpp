#include "brigade/launch/job_coordinator.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace brigade::launch {
namespace {

using std::chrono::seconds;

/// Two hosts, of two processes and of one.
class JobCoordinatorTest : public testing::Test {
 protected:
  void begin(int max_restarts) {
    options_.max_restarts = max_restarts;
    coordinator_.emplace(options_, std::vector<int>{2, 1},
                         [this](const Message& message) { orders_.push_back(message); });
    coordinator_->begin();
  }
  void deliver(const Message& message) { coordinator_->handle(message, now_); }
  void end(int rank, ExitStatus status, int generation = 0) {
    deliver(RankEnded{.generation = generation, .rank = rank, .status = status});
  }
  void over(bool all_done, int generation = 0) {
    for (const int host : {0, 1})
      deliver(HostFinished{.host = host, .generation = generation, .all_done = all_done});
  }
  /// The next order, which must be of this kind.
  template <class Kind>
  Kind next() {
    EXPECT_FALSE(orders_.empty());
    const Message message = orders_.empty() ? Message() : orders_.front();
    if (!orders_.empty()) orders_.erase(orders_.begin());
    const Kind* const found = std::get_if<Kind>(&message);
    EXPECT_NE(found, nullptr) << encode(message);
    return found == nullptr ? Kind{} : *found;
  }

  JobOptions options_{.command = {"true"}};
  std::vector<Message> orders_;
  std::optional<JobCoordinator> coordinator_;
  JobCoordinator::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(JobCoordinatorTest, AJobIsDoneWhenAllHostsAre) {
  begin(0);
  EXPECT_EQ(next<StartOrder>().processes, (std::vector<int>{2, 1}));
  for (int rank = 0; rank < 3; ++rank) end(rank, {.code = 0});
  deliver(HostFinished{.host = 1});
  EXPECT_TRUE(orders_.empty());
  deliver(HostFinished{.host = 0});
  EXPECT_EQ(next<FinishOrder>().exit_code, 0);
}

TEST_F(JobCoordinatorTest, AFailureOnAnyHostStopsAllAndStartsTheNextGeneration) {
  begin(1);
  next<StartOrder>();
  end(2, {.code = 7});
  coordinator_->advance(now_);
  EXPECT_TRUE(orders_.empty());  // somebody may have been killed before it failed
  coordinator_->advance(coordinator_->next_deadline());
  EXPECT_EQ(next<NameFailureOrder>().rank, 2);
  EXPECT_EQ(next<StopOrder>().signal, SIGTERM);
  over(false);
  const auto start = next<StartOrder>();
  EXPECT_EQ(start.generation, 1);
  EXPECT_EQ(start.summary.restarts, 1);
  EXPECT_TRUE(start.summary.reports_failure);
  end(0, {.code = 3}, 0);  // an echo of the last generation
  coordinator_->advance(now_);
  EXPECT_TRUE(orders_.empty());
  end(1, {.signal = SIGKILL}, 1);
  coordinator_->advance(now_);
  next<NameFailureOrder>();
  next<StopOrder>();
  over(false, 1);
  EXPECT_EQ(next<FinishOrder>().exit_code, 137);
}

TEST_F(JobCoordinatorTest, AFailureCausedByAnotherIsNotNamed) {
  begin(0);
  next<StartOrder>();
  coordinator_->record_lost(0, 2);
  end(0, {.code = 1});
  coordinator_->advance(now_);
  EXPECT_TRUE(orders_.empty());
  EXPECT_EQ(coordinator_->next_deadline(), now_ + seconds(3));
  end(2, {.signal = SIGSEGV});
  coordinator_->advance(now_);
  EXPECT_EQ(next<NameFailureOrder>().rank, 2);
}

TEST_F(JobCoordinatorTest, EventsOfAnEarlierGenerationAreIgnored) {
  begin(1);
  next<StartOrder>();
  end(2, {.signal = SIGKILL});
  coordinator_->advance(now_);
  next<NameFailureOrder>();
  next<StopOrder>();
  over(false);
  EXPECT_EQ(next<StartOrder>().generation, 1);
  coordinator_->record_lost(0, 1);  // late
  deliver(RankLost{.generation = 0, .rank = 0, .reason = "it slept"});
  EXPECT_TRUE(orders_.empty());
  end(0, {.code = 1}, 1);
  EXPECT_EQ(coordinator_->next_deadline(), now_ + std::chrono::milliseconds(100));
}

TEST_F(JobCoordinatorTest, AStalledRankIsNamedOnce) {
  begin(0);
  next<StartOrder>();
  deliver(RankLost{.rank = 1, .reason = "it slept"});
  deliver(RankLost{.rank = 0, .reason = "it slept"});
  EXPECT_EQ(next<NameFailureOrder>().reason, "it slept");
  next<StopOrder>();
  EXPECT_TRUE(orders_.empty());
}

TEST_F(JobCoordinatorTest, ASignalToEachHostStopsAndASecondToOneKills) {
  begin(3);
  next<StartOrder>();
  deliver(SignalReceived{.host = 1, .signal = SIGTERM});
  deliver(SignalReceived{.host = 0, .signal = SIGTERM});
  EXPECT_EQ(next<StopOrder>().signal, SIGTERM);
  EXPECT_TRUE(orders_.empty());
  deliver(SignalReceived{.host = 0, .signal = SIGTERM});
  EXPECT_EQ(next<StopOrder>().signal, SIGKILL);
  over(false);
  EXPECT_EQ(next<FinishOrder>().exit_code, 75);
}

TEST_F(JobCoordinatorTest, WhoFailsBeforeTheStopReachesItHasSeenAnothersEnd) {
  begin(0);
  next<StartOrder>();
  deliver(SignalReceived{.host = 1, .signal = SIGTERM});
  next<StopOrder>();
  end(0, {.signal = SIGTERM});
  deliver(RankEnded{.rank = 2, .status = {.code = 1}, .is_orderly = false, .was_asked = false});
  EXPECT_TRUE(orders_.empty());
  end(1, {.code = 75});
  over(false);
  const auto finish = next<FinishOrder>();
  EXPECT_EQ(finish.exit_code, 75);
  EXPECT_FALSE(finish.summary.reports_failure);
}

TEST_F(JobCoordinatorTest, WhoFailsThoughItWasAskedOrIsKilledDuringAStopIsNamed) {
  const std::vector<RankEnded> failures = {
      {.rank = 2, .status = {.code = 1}, .is_orderly = false},
      {.rank = 2, .status = {.signal = SIGKILL}, .is_orderly = false, .was_asked = false},
      {.rank = 2, .status = {.code = 2}, .is_orderly = false, .was_asked = false}};
  for (const RankEnded& failure : failures) {
    begin(0);
    next<StartOrder>();
    deliver(SignalReceived{.host = 1, .signal = SIGTERM});
    next<StopOrder>();
    end(0, {.code = 75});
    deliver(failure);
    EXPECT_EQ(next<NameFailureOrder>().rank, 2);
    over(false);
    const auto finish = next<FinishOrder>();
    EXPECT_EQ(finish.exit_code, failure.status.as_code());
    EXPECT_TRUE(finish.summary.reports_failure);
  }
}

TEST_F(JobCoordinatorTest, AskingForARestartIsNotAFailure) {
  begin(0);
  next<StartOrder>();
  end(1, {.code = 75});
  coordinator_->advance(coordinator_->next_deadline());
  next<NameFailureOrder>();
  next<StopOrder>();
  over(false);
  const auto start = next<StartOrder>();
  EXPECT_EQ(start.summary.membership_changes, 1);
  EXPECT_FALSE(start.summary.reports_failure);
}

/// A worker and a server on host 0, the chief on host 1.
class JobWithRolesTest : public JobCoordinatorTest {
 protected:
  static constexpr int kWorker = 0, kServer = 1, kChief = 2;

  void begin(int max_restarts) {
    options_.roles = Roles{.servers = 1, .workers = 2, .hosts = 2};
    options_.grace = seconds(10);
    JobCoordinatorTest::begin(max_restarts);
    next<StartOrder>();
    ASSERT_TRUE(is_chief(*options_.roles, kChief) && is_server(*options_.roles, kServer));
    ASSERT_TRUE(is_worker(*options_.roles, kWorker));
  }
  void finish_after(int chief_code) {
    end(kChief, {.code = chief_code});
    EXPECT_EQ(next<ReleaseOrder>().kind, EndKind::kDone);
  }
};

TEST_F(JobWithRolesTest, AProcessOfAnyHostIsRestartedAloneWithinTheLimitOfTheJob) {
  begin(2);
  end(kWorker, {.code = 7});
  const auto first = next<RestartOrder>();
  EXPECT_EQ(first.rank, kWorker);
  EXPECT_TRUE(first.is_failure);
  EXPECT_EQ(first.restarts, 1);
  end(kServer, {.signal = SIGKILL});
  EXPECT_EQ(next<RestartOrder>().restarts, 2);
  end(kChief, {.code = 7});
  EXPECT_TRUE(orders_.empty());
  coordinator_->advance(coordinator_->next_deadline());
  EXPECT_EQ(next<NameFailureOrder>().rank, kChief);
  next<StopOrder>();
  over(false);
  const auto finish = next<FinishOrder>();
  EXPECT_EQ(finish.exit_code, 7);
  EXPECT_EQ(finish.summary.restarts, 2);
  EXPECT_TRUE(finish.summary.reports_failure);
}

TEST_F(JobWithRolesTest, AskingForARestartIsNoFailure) {
  begin(0);
  end(kServer, {.code = 75});
  const auto restart = next<RestartOrder>();
  EXPECT_FALSE(restart.is_failure);
  EXPECT_EQ(restart.restarts, 0);
  EXPECT_EQ(restart.membership_changes, 1);
}

TEST_F(JobWithRolesTest, WrongUsageEndsTheJob) {
  begin(5);
  end(kServer, {.code = 2});
  coordinator_->advance(coordinator_->next_deadline());
  EXPECT_EQ(next<NameFailureOrder>().rank, kServer);
}

TEST_F(JobWithRolesTest, AfterTheChiefAWorkerThatFailsIsReleasedAndItsCodeIsTheJobs) {
  begin(5);
  finish_after(0);
  end(kWorker, {.code = 9});
  const auto release = next<ReleaseOrder>();
  EXPECT_EQ(release.rank, kWorker);
  EXPECT_EQ(release.kind, EndKind::kFailed);
  end(kServer, {.code = 0});
  EXPECT_EQ(next<ReleaseOrder>().kind, EndKind::kDone);
  over(false);
  EXPECT_EQ(next<FinishOrder>().exit_code, 9);
}

TEST_F(JobWithRolesTest, AWorkerThatEndsAfterTheTrainingCameTooLate) {
  begin(5);
  finish_after(0);
  end(kServer, {.code = 0});
  next<ReleaseOrder>();
  EXPECT_EQ(coordinator_->next_deadline(), now_ + seconds(10));
  coordinator_->advance(now_ + seconds(10));
  const auto dismissal = next<DismissOrder>();
  EXPECT_EQ(dismissal.ranks, std::vector<int>{kWorker});
  EXPECT_EQ(dismissal.signal, SIGTERM);
  end(kWorker, {.code = 1});
  EXPECT_EQ(next<ReleaseOrder>().kind, EndKind::kTooLate);
  over(false);
  EXPECT_EQ(next<FinishOrder>().exit_code, 0);
}

TEST_F(JobWithRolesTest, ServersThatStayAreAskedToEndAfterTheLastWorkerOfAllHosts) {
  begin(5);
  finish_after(0);
  coordinator_->advance(now_ + seconds(100));
  EXPECT_TRUE(orders_.empty());  // a worker of the other host is left
  end(kWorker, {.code = 0});
  next<ReleaseOrder>();
  coordinator_->advance(now_ + seconds(10));
  EXPECT_EQ(next<DismissOrder>().ranks, std::vector<int>{kServer});
  coordinator_->advance(now_ + seconds(20));
  EXPECT_EQ(next<DismissOrder>().signal, SIGKILL);
  end(kServer, {.signal = SIGKILL});
  EXPECT_EQ(next<ReleaseOrder>().kind, EndKind::kDone);
}

TEST_F(JobWithRolesTest, AStopReachesServersWhenTheWorkersOfAllHostsHaveEnded) {
  begin(5);
  deliver(SignalReceived{.host = 1, .signal = SIGINT});
  EXPECT_EQ(next<StopOrder>().signal, SIGINT);
  end(kChief, {.code = 130});
  coordinator_->advance(now_);
  EXPECT_TRUE(orders_.empty());
  end(kWorker, {.code = 130});
  coordinator_->advance(now_);
  const auto dismissal = next<DismissOrder>();
  EXPECT_EQ(dismissal.ranks, std::vector<int>{kServer});
  EXPECT_EQ(dismissal.signal, SIGINT);
  end(kServer, {.code = 130});
  over(false);
  EXPECT_EQ(next<FinishOrder>().exit_code, 130);
}

}  // namespace
}  // namespace brigade::launch
