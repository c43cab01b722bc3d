#include "brigade/coordination/staleness_clock.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

TEST(StalenessClock, AWorkerRunsAheadByTheBoundAndNoMore) {
  StalenessClock clock(2);
  clock.join(0);
  clock.join(1);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(clock.may_begin(0));
    clock.finish_step(0);
  }
  EXPECT_FALSE(clock.may_begin(0)) << "three steps ahead of worker 1, the bound is 2";
  EXPECT_THROW(clock.finish_step(0), Error);
  EXPECT_EQ(clock.slowest(), std::vector{1});
  clock.finish_step(1);
  EXPECT_TRUE(clock.may_begin(0));
}

TEST(StalenessClock, ABoundOfZeroIsLockstep) {
  StalenessClock clock(0);
  clock.join(0);
  clock.join(1);
  clock.finish_step(0);
  EXPECT_FALSE(clock.may_begin(0));
  EXPECT_TRUE(clock.may_begin(1));
  clock.finish_step(1);
  EXPECT_TRUE(clock.may_begin(0));
}

TEST(StalenessClock, WithoutABoundNobodyWaits) {
  StalenessClock clock(std::nullopt);
  clock.join(0);
  clock.join(1);
  for (int step = 0; step < 1000; ++step) clock.finish_step(0);
  EXPECT_TRUE(clock.may_begin(0));
  EXPECT_EQ(clock.finished_by_all(), 0);
}

TEST(StalenessClock, TheLossOfTheSlowestReleasesTheOthers) {
  StalenessClock clock(1);
  for (const int worker : {0, 1, 2}) clock.join(worker);
  for (const int worker : {0, 0, 1}) clock.finish_step(worker);
  EXPECT_FALSE(clock.may_begin(0));
  clock.leave(2);
  EXPECT_TRUE(clock.may_begin(0));
  EXPECT_EQ(clock.slowest(), std::vector{1});
  EXPECT_THROW(clock.may_begin(2), Error);
}

TEST(StalenessClock, ASuccessorStartsWithTheSlowestAndHoldsNobodyUp) {
  StalenessClock clock(1);
  clock.join(0);
  clock.join(1);
  for (int step = 0; step < 5; ++step)
    for (const int worker : {0, 1}) clock.finish_step(worker);
  clock.finish_step(0);
  clock.leave(1);
  clock.join(1);
  EXPECT_EQ(clock.finished_by_all(), 6) << "worker 1 counts from where worker 0 is";
  EXPECT_TRUE(clock.may_begin(0));
  clock.join(0);
  EXPECT_EQ(clock.finished_by_all(), 6) << "who joins again without leaving does, too";
}

TEST(StalenessClock, AWorkerThatIsAloneKeepsItsCount) {
  StalenessClock clock(1);
  clock.join(0);
  clock.finish_step(0);
  clock.join(0);
  EXPECT_EQ(clock.finished_by_all(), 1);
}

TEST(StalenessClock, RejectsANegativeBoundAndUnknownWorkers) {
  EXPECT_THROW(StalenessClock(-1), Error);
  StalenessClock clock(1);
  EXPECT_THROW(clock.finish_step(0), Error);
  EXPECT_EQ(clock.finished_by_all(), 0);
  EXPECT_TRUE(clock.slowest().empty());
}

TEST(StalenessClock, SomebodyMayAlwaysBeginAndNobodyIsFurtherAheadThanTheBound) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t bound = random() % 4;
    StalenessClock clock(bound);
    std::map<int, std::int64_t> finished;
    for (int i = 0; i < 300; ++i) {
      const int worker = static_cast<int>(random() % 4);
      const auto action = random() % 20;
      if (action == 0 && finished.size() > 1) {
        clock.leave(worker);
        finished.erase(worker);
      } else if (!finished.contains(worker)) {
        clock.join(worker);
        finished[worker] = clock.finished_by_all();
      } else if (clock.may_begin(worker)) {
        clock.finish_step(worker);
        ++finished[worker];
      }
      bool somebody = false;
      for (const auto& [each, steps] : finished) {
        somebody = somebody || clock.may_begin(each);
        ASSERT_LE(steps, clock.finished_by_all() + bound + 1) << "seed " << seed;
      }
      ASSERT_TRUE(somebody) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace brigade::coordination
