#include "brigade/launch/first_failure.h"

#include <gtest/gtest.h>

#include <csignal>

namespace brigade::launch {
namespace {

using std::chrono::milliseconds;

const FirstFailure::Time kNow{};
const FirstFailure::Time kLater = kNow + milliseconds(10);
const FirstFailure::Time kMuchLater = kNow + std::chrono::seconds(10);

TEST(FirstFailure, IsNothingWhileAllIsWell) {
  FirstFailure first;
  first.note_end(0, {.code = 0}, kNow);
  first.note_gone(1);
  EXPECT_FALSE(first.has_failed());
  EXPECT_EQ(first.rank(kMuchLater), std::nullopt);
}

TEST(FirstFailure, IsTheOneSeenFirst) {
  FirstFailure first;
  first.note_end(2, {.code = 1}, kNow);
  first.note_end(1, {.code = 1}, kLater);
  EXPECT_EQ(first.rank(kLater), std::nullopt);
  first.note_end(0, {.signal = SIGKILL}, kMuchLater);
  EXPECT_EQ(first.rank(kMuchLater), 2);
}

TEST(FirstFailure, IsTheKilledOneWhoseEndIsSeenABitLater) {
  FirstFailure first;
  first.note_end(2, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(kNow), std::nullopt);
  first.note_end(0, {.signal = SIGKILL}, kLater);
  EXPECT_EQ(first.rank(kLater), 0);
}

TEST(FirstFailure, IsTheKilledOneOfThoseSeenTogether) {
  FirstFailure first;
  first.note_end(0, {.code = 1}, kNow);
  first.note_end(1, {.signal = SIGKILL}, kNow);
  EXPECT_EQ(first.rank(kNow), 1);
}

TEST(FirstFailure, IsTheOneWhoseConnectionBrokeThoughItsEndIsSeenLater) {
  FirstFailure first;
  first.note_gone(1);
  first.note_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(kNow), std::nullopt);
  first.note_end(1, {.signal = SIGSEGV}, kLater);
  EXPECT_EQ(first.rank(kLater), 1);
}

TEST(FirstFailure, DoesNotWaitForEverForOneThatIsLost) {
  FirstFailure first;
  first.note_gone(1);
  first.note_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(first.decided_at()), 0);
}

TEST(FirstFailure, IsNotOneThatWasLostButEndedWell) {
  FirstFailure first;
  first.note_gone(1);
  first.note_end(1, {.code = 0}, kNow);
  first.note_end(0, {.code = 1}, kNow);
  EXPECT_EQ(first.rank(first.decided_at()), 0);
}

TEST(FirstFailure, IsTheFirstThatWasGoneAndFailed) {
  FirstFailure first;
  first.note_gone(2);  // it had done its work
  first.note_end(2, {.code = 0}, kNow);
  first.note_gone(1);
  first.note_gone(0);  // because of it
  first.note_end(0, {.code = 1}, kLater);
  EXPECT_EQ(first.rank(kLater), std::nullopt);
  first.note_end(1, {.code = 1}, kLater + milliseconds(5));
  EXPECT_EQ(first.rank(kLater + milliseconds(5)), 1);
}

}  // namespace
}  // namespace brigade::launch
