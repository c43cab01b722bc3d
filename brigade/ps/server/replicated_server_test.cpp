#include "brigade/ps/server/replicated_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/testing/local_pair.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PairRole;
using coordination::PairStatus;
using testing::LocalPair;
using testing::small_gradients;
using testing::small_model;
using testing::small_placement;

/// Of one server with a replica.
std::unique_ptr<ParameterClient> client_of(LocalPair& pair, const cluster::Task& task) {
  std::vector<std::unique_ptr<ParameterService>> services;
  services.push_back(pair.connect(task));
  return std::make_unique<ParameterClient>(
      task, std::move(services),
      ParameterClientOptions{.server_timeout = std::chrono::seconds(60)});
}

/// A client that has created the model, and lets workers begin.
std::unique_ptr<ParameterClient> small_job_on(LocalPair& pair) {
  auto chief = client_of(pair, testing::kChief);
  chief->create(small_model(), small_placement(1), *optim::Sgd{.learning_rate = 1}.rule(), {});
  chief->set_ready();
  return chief;
}

/// A pair whose chief has created the model, and counts what it pushes.
class ReplicatedServerTest : public ::testing::Test {
 protected:
  void SetUp() override { chief_ = small_job_on(pair_); }
  void push(double value) {
    chief_->push(small_gradients(value));
    pushed_ += value;
    ++pushes_;
  }
  /// Each push was applied once.
  void expect_all_pushed() {
    const ParameterClient::Values values = chief_->pull();
    EXPECT_EQ(values.step, pushes_);
    EXPECT_EQ(values.values.at(0).value.min().item<double>(), -pushed_);
    EXPECT_EQ(values.values.at(0).value.max().item<double>(), -pushed_);
  }

  LocalPair pair_{{.tasks = testing::kTasks}};
  std::unique_ptr<ParameterClient> chief_;
  double pushed_ = 0;
  std::int64_t pushes_ = 0;
};

TEST_F(ReplicatedServerTest, AReplicaReplacesTheServerThatIsKilled) {
  push(1);
  EXPECT_EQ(pair_.wait_paired(), 0u) << "the first begins";
  push(2);
  pair_.stop(0);
  push(4);
  EXPECT_EQ(pair_.role(1), PairRole::kActing);
  expect_all_pushed();
  pair_.start(0);
  EXPECT_EQ(pair_.wait_paired(), 1u);
  push(8);
  pair_.stop(1);
  push(16);
  EXPECT_EQ(pair_.role(0), PairRole::kActing);
  expect_all_pushed();
}

TEST_F(ReplicatedServerTest, ALostDiskOfTheServerLosesNothing) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  for (int i = 0; i < 5; ++i) push(1);
  pair_.stop(0);
  pair_.lose_disk(0);
  pair_.start(0);
  push(2);
  expect_all_pushed();
  EXPECT_EQ(pair_.wait_paired(), 1u);
  push(4);
  pair_.stop(1);
  pair_.lose_disk(1);
  pair_.start(1);
  push(8);
  expect_all_pushed();
}

TEST_F(ReplicatedServerTest, WithoutItsReplicaTheServerContinuesAlone) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  push(1);
  pair_.stop(1);
  push(2);
  push(4);
  EXPECT_EQ(pair_.role(0), PairRole::kActing);
  EXPECT_FALSE(pair_.process(0)->is_paired());
  expect_all_pushed();
  pair_.start(1);
  EXPECT_EQ(pair_.wait_paired(), 0u)
      << "it catches up, with records and an earlier state on its disk";
  push(8);
  pair_.stop(0);
  push(16);
  expect_all_pushed();
}

TEST(ReplicatedServer, AReplicaThatIsKilledAndStartedAgainCostsNoVote) {
  LocalPair pair({.tasks = testing::kTasks, .term = std::chrono::seconds(5)});
  const auto chief = small_job_on(pair);
  ASSERT_EQ(pair.wait_paired(), 0u);
  const auto epoch = pair.process(0)->role({}).status.epoch;
  pair.stop(1);
  pair.start(1);
  chief->push(small_gradients(1));
  EXPECT_EQ(pair.wait_paired(), 0u);
  EXPECT_EQ(pair.process(0)->role({}).status.epoch, epoch);
}

TEST_F(ReplicatedServerTest, AServerThatWasReplacedAndWakesUpActsNoMore) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  push(1);
  pair_.cut_off(0, true);
  push(2);
  EXPECT_EQ(pair_.role(1), PairRole::kActing);
  push(4);
  pair_.cut_off(0, false);
  pair_.wait_role(0, PairRole::kFollowing);
  EXPECT_EQ(pair_.wait_paired(), 1u);
  expect_all_pushed();
  EXPECT_EQ(code_of([&] { pair_.process(0)->renew("any", {}); }), ErrorCode::kUnavailable);
}

TEST(ReplicatedServer, OneThatWakesUpAsksWhetherItWasReplaced) {
  base::ManualClock clock;
  const auto term = std::chrono::milliseconds(400);
  LocalPair pair({.tasks = testing::kTasks, .term = term, .clock = &clock});
  const auto chief = small_job_on(pair);
  ASSERT_EQ(pair.wait_paired(), 0u);
  chief->push(small_gradients(1));
  pair.cut_off(0, true);
  clock.advance(term);  // of the two terms after which it would act no more
  chief->push(small_gradients(1));
  EXPECT_EQ(pair.role(1), PairRole::kActing);
  EXPECT_EQ(pair.role(0), PairRole::kActing);
  pair.cut_off(0, false);
  pair.wait_role(0, PairRole::kFollowing);
}

TEST_F(ReplicatedServerTest, RefusesFollowersWithoutItsToken) {
  EXPECT_EQ(code_of([&] { pair_.process(0)->follow("guess", {}, {}); }),
            ErrorCode::kPermissionDenied);
}

TEST_F(ReplicatedServerTest, NobodyButTheWitnessLetsAProcessAct) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  chief_.reset();  // it has finished: the first worker is the witness
  pair_.stop(0);
  pair_.wait_role(1, PairRole::kCandidate);
  const PairStatus candidate = pair_.process(1)->role({}).status;
  Vote vote{.voter = testing::kWorker1,
            .epoch = 9,
            .life = candidate.life,
            .candidacy = candidate.candidacy};
  EXPECT_EQ(pair_.process(1)->vote(vote, {}).role, PairRole::kCandidate);
  vote.voter = testing::kWorker0;
  vote.candidacy = candidate.candidacy - 1;
  EXPECT_EQ(pair_.process(1)->vote(vote, {}).role, PairRole::kCandidate) << "it comes late";
  vote.candidacy = candidate.candidacy;
  vote.life = "an earlier one";
  EXPECT_EQ(pair_.process(1)->vote(vote, {}).role, PairRole::kCandidate);
  const auto witness = client_of(pair_, testing::kWorker0);
  EXPECT_EQ(pair_.role(1), PairRole::kActing);
}

TEST_F(ReplicatedServerTest, BothMayBeStartedAgain) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  push(1);
  pair_.stop(0);
  pair_.stop(1);
  pair_.start(1);
  pair_.start(0);
  push(2);
  expect_all_pushed();
  pair_.wait_paired();
  push(4);
  expect_all_pushed();
}

TEST_F(ReplicatedServerTest, BothEndWithTheJob) {
  ASSERT_EQ(pair_.wait_paired(), 0u);
  chief_.reset();
  LocalPair::wait(
      [&] { return pair_.process(0)->is_finished() && pair_.process(1)->is_finished(); });
}

TEST(ReplicatedServer, OneThatActsEndsWhenTheOtherOneKnowsTheEnd) {
  LocalPair pair({.tasks = testing::kTasks, .term = std::chrono::seconds(2)});
  auto chief = small_job_on(pair);
  ASSERT_EQ(pair.wait_paired(), 0u);
  pair.lose_ends(20);  // one is asked for after 20 ms
  chief.reset();
  LocalPair::wait([&] { return pair.process(0)->is_finished(); });
  pair.stop(0);
  LocalPair::wait([&] { return pair.process(1)->is_finished(); });
}

TEST(ReplicatedServerSoak, LosesAndDoublesNoPushWhateverHappensToEitherProcess) {
  LocalPair pair({.tasks = testing::kTasks, .snapshot_after_bytes = 2000});
  const auto chief = small_job_on(pair);
  std::atomic<bool> is_over{false};
  const auto train = [&](const cluster::Task& task, double value) {
    return concurrency::testing::start([&pair, &is_over, task, value] {
      const auto worker = client_of(pair, task);
      worker->wait_ready(small_placement(1), {});
      double pushes = 0;
      for (; !is_over || pushes == 0; ++pushes) worker->push(small_gradients(value));
      return pushes;
    });
  };
  auto first = train(testing::kWorker0, 1), second = train(testing::kWorker1, 1000);
  std::mt19937 random(11);
  for (int fault = 0; fault < 6; ++fault) {
    const std::size_t acting = pair.wait_paired();
    const std::size_t victim = random() % 3 == 0 ? 1 - acting : acting;
    if (fault % 3 == 2) {
      pair.cut_off(victim, true);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
      pair.cut_off(victim, false);
      continue;
    }
    pair.stop(victim);
    if (fault % 3 == 1) pair.lose_disk(victim);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1000));
    pair.start(victim);
  }
  pair.wait_paired();
  is_over = true;
  const double pushes_of_first = concurrency::testing::result_of(first);
  const double pushes_of_second = concurrency::testing::result_of(second);
  const ParameterClient::Values values = chief->pull();
  EXPECT_EQ(values.values.at(0).value.min().item<double>(),
            -(pushes_of_first + 1000 * pushes_of_second));
  EXPECT_EQ(static_cast<double>(values.step), pushes_of_first + pushes_of_second);
}

}  // namespace
}  // namespace brigade::ps
