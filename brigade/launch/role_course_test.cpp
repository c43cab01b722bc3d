#include "brigade/launch/role_course.h"

#include <gtest/gtest.h>

namespace brigade::launch {
namespace {

using Order = RoleCourse::Order;
using std::chrono::seconds;

constexpr int kChief = 0, kWorker = 1, kEvaluator = 2, kServer = 3;

class RoleCourseTest : public testing::Test {
 protected:
  const RoleCourse::Time now_ = std::chrono::steady_clock::now();
  RoleCourse course_{{.servers = 1, .workers = 2, .has_evaluator = true}, seconds(10)};
};

TEST_F(RoleCourseTest, AllMayBeRestartedUntilTheChiefHasSucceeded) {
  course_.record_end(kWorker, true, now_);
  for (const int process : {kChief, kWorker, kEvaluator, kServer})
    EXPECT_TRUE(course_.may_restart(process)) << process;
  course_.record_end(kChief, false, now_);
  EXPECT_FALSE(course_.is_chief_done());
}

TEST_F(RoleCourseTest, AfterTheChiefOnlyAServerMayBeRestartedForWorkersThatStillRun) {
  course_.record_end(kChief, true, now_);
  EXPECT_TRUE(course_.is_chief_done());
  EXPECT_FALSE(course_.may_restart(kWorker));
  EXPECT_FALSE(course_.may_restart(kEvaluator));
  EXPECT_TRUE(course_.may_restart(kServer));
  course_.record_end(kWorker, true, now_);
  EXPECT_FALSE(course_.may_restart(kServer));
}

TEST_F(RoleCourseTest, ServersThatStayAreAskedToEndAndThenKilled) {
  course_.record_end(kChief, true, now_);
  course_.record_end(kEvaluator, true, now_);
  EXPECT_EQ(course_.next_deadline(), RoleCourse::Time::max());  // a worker is left
  course_.record_end(kWorker, false, now_ + seconds(1));
  EXPECT_EQ(course_.next_deadline(), now_ + seconds(11));
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(10)), Order::kNone);
  EXPECT_FALSE(course_.has_dismissed_servers());
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(12)), Order::kSignal);
  EXPECT_TRUE(course_.has_dismissed_servers());
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(13)), Order::kNone);
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(22)), Order::kKill);
  EXPECT_EQ(course_.next_deadline(), RoleCourse::Time::max());
}

TEST_F(RoleCourseTest, WhenTheJobIsStoppedServersEndRightAfterTheWorkers) {
  course_.record_stop();
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(100)), Order::kNone);
  course_.record_end(kChief, false, now_);
  EXPECT_EQ(course_.order_for_servers(now_), Order::kNone);
  course_.record_end(kWorker, false, now_);
  EXPECT_EQ(course_.order_for_servers(now_), Order::kSignal);
}

TEST_F(RoleCourseTest, WorkersThatComeAfterTheTrainingAreAskedToEndAndThenKilled) {
  course_.record_end(kChief, true, now_);
  EXPECT_FALSE(course_.has_training_ended());
  EXPECT_EQ(course_.next_deadline(), RoleCourse::Time::max());
  course_.record_end(kServer, true, now_ + seconds(1));
  EXPECT_TRUE(course_.has_training_ended());
  EXPECT_EQ(course_.next_deadline(), now_ + seconds(11));
  EXPECT_EQ(course_.order_for_workers(now_ + seconds(10)), Order::kNone);
  EXPECT_EQ(course_.order_for_workers(now_ + seconds(11)), Order::kSignal);
  EXPECT_EQ(course_.order_for_workers(now_ + seconds(12)), Order::kNone);
  EXPECT_EQ(course_.next_deadline(), now_ + seconds(21));
  EXPECT_EQ(course_.order_for_servers(now_ + seconds(21)), Order::kNone);
  EXPECT_EQ(course_.order_for_workers(now_ + seconds(21)), Order::kKill);
  EXPECT_EQ(course_.next_deadline(), RoleCourse::Time::max());
}

TEST_F(RoleCourseTest, TheTrainingHasNotEndedWithAChiefOrAServerThatFailed) {
  course_.record_end(kChief, true, now_);
  course_.record_end(kServer, false, now_);
  EXPECT_FALSE(course_.has_training_ended());
  RoleCourse other({.servers = 1, .workers = 2}, seconds(10));
  other.record_end(kChief, false, now_);
  other.record_end(2, true, now_);
  EXPECT_FALSE(other.has_training_ended());
  EXPECT_EQ(other.order_for_workers(now_ + seconds(100)), Order::kNone);
}

TEST_F(RoleCourseTest, AChiefThatIsNoWorkerCountsAsTheLastOfThem) {
  RoleCourse course({.servers = 1, .workers = 1, .has_chief = true}, seconds(10));
  course.record_end(1, true, now_);  // worker:0
  EXPECT_FALSE(course.is_chief_done());
  EXPECT_EQ(course.next_deadline(), RoleCourse::Time::max());
  course.record_end(0, true, now_);
  EXPECT_TRUE(course.is_chief_done());
  EXPECT_EQ(course.order_for_servers(now_ + seconds(10)), Order::kSignal);
}

TEST_F(RoleCourseTest, WorkersThatEndByThemselvesGetNoOrder) {
  course_.record_end(kServer, true, now_);
  course_.record_end(kChief, true, now_);
  EXPECT_EQ(course_.next_deadline(), now_ + seconds(10));
  course_.record_end(kWorker, true, now_ + seconds(1));
  EXPECT_EQ(course_.order_for_workers(now_ + seconds(100)), Order::kNone);
}

}  // namespace
}  // namespace brigade::launch
