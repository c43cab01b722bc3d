#include "brigade/concurrency/signal.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace brigade::concurrency {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Signal, BeginsAtZeroAndRisesByOne) {
  Signal signal;
  EXPECT_EQ(signal.value(), 0u);
  signal.raise();
  signal.raise();
  EXPECT_EQ(signal.value(), 2u);
}

TEST(Signal, AWaitForAReachedValueReturnsImmediately) {
  Signal signal;
  EXPECT_TRUE(signal.wait_for(0, microseconds(0), milliseconds(0)));
  signal.raise();
  EXPECT_TRUE(signal.wait_for(1, microseconds(0), milliseconds(0)));
}

TEST(Signal, AWaitEndsAtItsTimeout) {
  Signal signal;
  signal.raise();
  EXPECT_FALSE(signal.wait_for(2, microseconds(0), milliseconds(10)));
  EXPECT_FALSE(signal.wait_for(2, microseconds(100), milliseconds(1)));
}

class SignalSpin : public ::testing::TestWithParam<int> {};

TEST_P(SignalSpin, SynchronizesPlainMemory) {
  constexpr std::uint64_t kRounds = 500;
  const microseconds spin(GetParam());
  Signal there;
  Signal back;
  std::uint64_t parcel = 0;  // plain memory: the signals alone order it
  std::thread other([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(there.wait_for(round, spin, seconds(60)));
      EXPECT_EQ(parcel, 2 * round - 1);
      ++parcel;
      back.raise();
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    ++parcel;
    there.raise();
    ASSERT_TRUE(back.wait_for(round, spin, seconds(60)));
    EXPECT_EQ(parcel, 2 * round);
  }
  other.join();
}

INSTANTIATE_TEST_SUITE_P(SleepingAndPolling, SignalSpin, ::testing::Values(0, 50));

TEST(Signal, WakesAllWaiters) {
  Signal signal;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back(
        [&] { EXPECT_TRUE(signal.wait_for(1, microseconds(0), milliseconds(60'000))); });
  }
  signal.raise();
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace brigade::concurrency
