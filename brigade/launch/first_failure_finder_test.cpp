#include "brigade/launch/job_coordinator.h"

#include <gtest/gtest.h>

#include <csignal>

namespace brigade::launch {
namespace {

using std::chrono::milliseconds;

const FirstFailureFinder::Time kNow{};
const FirstFailureFinder::Time kLater = kNow + milliseconds(10);
const FirstFailureFinder::Time kMuchLater = kNow + std::chrono::seconds(10);

TEST(FirstFailureFinder, IsNothingWithoutAFailure) {
  FirstFailureFinder first;
  first.record_end(0, {.code = 0}, kNow);
  first.record_lost(1);
  EXPECT_FALSE(first.has_failed());
  EXPECT_EQ(first.rank(kMuchLater), std::nullopt);
}

TEST(FirstFailureFinder, IsTheOneSeenFirst) {
  FirstFailureFinder first;
  first.record_end(2, {.code = 1}, kNow);
  first.record_end(1, {.code = 1}, kLater);
  EXPECT_EQ(first.rank(kLater), std::nullopt);
  first.record_end(0, {.signal = SIGKILL}, kMuchLater);
  EXPECT_EQ(first.rank(kMuchLater), 2);
}

TEST(FirstFailureFinder, IsTheKilledOneWhoseEndIsSeenABitLater) {
  FirstFailureFinder first;
  first.record_end(2, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(kNow), std::nullopt);
  first.record_end(0, {.signal = SIGKILL}, kLater);
  EXPECT_EQ(first.rank(kLater), 0);
}

TEST(FirstFailureFinder, IsTheKilledOneOfThoseSeenTogether) {
  FirstFailureFinder first;
  first.record_end(0, {.code = 1}, kNow);
  first.record_end(1, {.signal = SIGKILL}, kNow);
  EXPECT_EQ(first.rank(kNow), 1);
}

TEST(FirstFailureFinder, IsTheOneWhoseConnectionBrokeThoughItsEndIsSeenLater) {
  FirstFailureFinder first;
  first.record_lost(1);
  first.record_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(kNow), std::nullopt);
  first.record_end(1, {.signal = SIGSEGV}, kLater);
  EXPECT_EQ(first.rank(kLater), 1);
}

TEST(FirstFailureFinder, DoesNotWaitForeverForALostMember) {
  FirstFailureFinder first;
  first.record_lost(1);
  first.record_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(first.decided_at()), 0);
}

TEST(FirstFailureFinder, IsNotOneThatWasLostButEndedWell) {
  FirstFailureFinder first;
  first.record_lost(1);
  first.record_end(1, {.code = 0}, kNow);
  first.record_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(first.decided_at()), 0);
}

TEST(FirstFailureFinder, IsTheFirstLostMemberThatFailed) {
  FirstFailureFinder first;
  first.record_lost(2);  // it had done its work
  first.record_end(2, {.code = 0}, kNow);
  first.record_lost(1);
  first.record_lost(0);  // because of it
  first.record_end(0, {.code = 1}, kLater);
  EXPECT_EQ(first.rank(kLater), std::nullopt);
  first.record_end(1, {.code = 1}, kLater + milliseconds(5));
  EXPECT_EQ(first.rank(kLater + milliseconds(5)), 1);
}

}  // namespace
}  // namespace brigade::launch
