#include "brigade/concurrency/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "brigade/concurrency/testing/waiting.h"

namespace brigade::concurrency {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using namespace testing;  // NOLINT: waiting.h

TEST(BoundedQueue, RefusesACapacityOfZero) {
  EXPECT_THROW(BoundedQueue<int>(0), Error);
}

TEST(BoundedQueue, KeepsTheOrder) {
  BoundedQueue<int> queue(3);
  const CancelToken cancel;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i, cancel));
  EXPECT_EQ(queue.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(cancel), i);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, TakesElementsThatOnlyMove) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  const CancelToken cancel;
  EXPECT_TRUE(queue.push(std::make_unique<int>(7), cancel));
  EXPECT_EQ(**queue.pop(cancel), 7);
}

TEST(BoundedQueue, PushWaitsForRoom) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  queue.push(1, cancel);
  auto push = start([&] { return queue.push(2, cancel); });
  EXPECT_TRUE(still_waits(push));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.pop(cancel), 1);
  EXPECT_TRUE(result_of(push));
  EXPECT_EQ(queue.pop(cancel), 2);
}

TEST(BoundedQueue, PopWaitsForAnElement) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  auto pop = start([&] { return queue.pop(cancel); });
  EXPECT_TRUE(still_waits(pop));
  queue.push(5, cancel);
  EXPECT_EQ(result_of(pop), 5);
}

TEST(BoundedQueue, CloseDrainsThenEnds) {
  BoundedQueue<int> queue(2);
  const CancelToken cancel;
  queue.push(1, cancel);
  queue.close();
  EXPECT_TRUE(queue.is_closed());
  EXPECT_FALSE(queue.push(2, cancel));
  EXPECT_EQ(queue.pop(cancel), 1);
  EXPECT_EQ(queue.pop(cancel), std::nullopt);
  queue.close();
}

TEST(BoundedQueue, CloseWakesAWaitingPop) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  auto pop = start([&] { return queue.pop(cancel); });
  EXPECT_TRUE(still_waits(pop));
  queue.close();
  EXPECT_EQ(result_of(pop), std::nullopt);
}

TEST(BoundedQueue, CloseWakesAWaitingPush) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  queue.push(1, cancel);
  auto push = start([&] { return queue.push(2, cancel); });
  EXPECT_TRUE(still_waits(push));
  queue.close();
  EXPECT_FALSE(result_of(push));
  EXPECT_EQ(queue.pop(cancel), 1);
  EXPECT_EQ(queue.pop(cancel), std::nullopt);
}

TEST(BoundedQueue, CancelWakesAWaitingPop) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  auto pop = start([&] { return queue.pop(cancel); });
  EXPECT_TRUE(still_waits(pop));
  cancel.cancel();
  EXPECT_EQ(result_of(pop), std::nullopt);
}

TEST(BoundedQueue, CancelWakesAWaitingPush) {
  BoundedQueue<int> queue(1);
  const CancelToken cancel;
  queue.push(1, cancel);
  auto push = start([&] { return queue.push(2, cancel); });
  EXPECT_TRUE(still_waits(push));
  cancel.cancel();
  EXPECT_FALSE(result_of(push));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(BoundedQueue, CancelledTokenStopsEvenWithoutAWait) {
  BoundedQueue<int> queue(2);
  const CancelToken cancel;
  const CancelToken other;
  queue.push(1, other);
  cancel.cancel();
  EXPECT_FALSE(queue.push(2, cancel));
  EXPECT_EQ(queue.pop(cancel), std::nullopt);
  EXPECT_EQ(queue.pop(other), 1);  // nothing was lost for others
}

TEST(BoundedQueue, CancelLeavesOtherWaitersWaiting) {
  BoundedQueue<int> queue(1);
  const CancelToken mine;
  const CancelToken theirs;
  auto my_pop = start([&] { return queue.pop(mine); });
  auto their_pop = start([&] { return queue.pop(theirs); });
  mine.cancel();
  EXPECT_EQ(result_of(my_pop), std::nullopt);
  EXPECT_TRUE(still_waits(their_pop));
  queue.push(3, theirs);
  EXPECT_EQ(result_of(their_pop), 3);
}

TEST(BoundedQueue, DeliversEachElementOnceAmongManyThreads) {
  constexpr int kProducers = 3;
  constexpr int kEach = 500;
  BoundedQueue<int> queue(4);
  const CancelToken cancel;
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> count{0};
  std::atomic<int> producing{kProducers};
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) queue.push(p * kEach + i, cancel);
      if (--producing == 0) queue.close();
    });
    threads.emplace_back([&] {
      while (const std::optional<int> value = queue.pop(cancel)) {
        sum += *value;
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr std::int64_t kAll = kProducers * kEach;
  EXPECT_EQ(count, kAll);
  EXPECT_EQ(sum, kAll * (kAll - 1) / 2);
}

TEST(BoundedQueue, NoWakeUpIsLostWhenCancelRacesWithTheWait) {
  for (int round = 0; round < 300; ++round) {
    BoundedQueue<int> queue(1);
    const CancelToken cancel;
    auto pop = start([&] { return queue.pop(cancel); });
    cancel.cancel();
    ASSERT_EQ(result_of(pop), std::nullopt);
  }
}

}  // namespace
}  // namespace brigade::concurrency
