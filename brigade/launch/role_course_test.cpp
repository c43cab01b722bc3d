#include "brigade/launch/role_course.h"

#include <gtest/gtest.h>

namespace brigade::launch {
namespace {

using Order = RoleCourse::ServerOrder;
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
  EXPECT_EQ(course_.next_order(now_ + seconds(10)), Order::kNone);
  EXPECT_FALSE(course_.has_dismissed_servers());
  EXPECT_EQ(course_.next_order(now_ + seconds(12)), Order::kSignal);
  EXPECT_TRUE(course_.has_dismissed_servers());
  EXPECT_EQ(course_.next_order(now_ + seconds(13)), Order::kNone);
  EXPECT_EQ(course_.next_order(now_ + seconds(22)), Order::kKill);
  EXPECT_EQ(course_.next_deadline(), RoleCourse::Time::max());
}

TEST_F(RoleCourseTest, WhenTheJobIsStoppedServersEndRightAfterTheWorkers) {
  course_.record_stop();
  EXPECT_EQ(course_.next_order(now_ + seconds(100)), Order::kNone);
  course_.record_end(kChief, false, now_);
  EXPECT_EQ(course_.next_order(now_), Order::kNone);
  course_.record_end(kWorker, false, now_);
  EXPECT_EQ(course_.next_order(now_), Order::kSignal);
}

}  // namespace
}  // namespace brigade::launch
