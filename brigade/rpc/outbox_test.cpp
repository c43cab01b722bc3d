#include "brigade/rpc/outbox.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "brigade/concurrency/mutex.h"

namespace brigade::rpc {
namespace {

TEST(Outbox, CallsInTheOrderOfPosting) {
  Outbox outbox;
  std::vector<int> calls;
  for (int i = 0; i < 3; ++i) outbox.post([&calls, i] { calls.push_back(i); });
  EXPECT_TRUE(calls.empty());
  outbox.deliver();
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 2}));
}

TEST(Outbox, CallMayPostAndDeliver) {
  Outbox outbox;
  std::vector<int> calls;
  outbox.post([&] {
    outbox.post([&] { calls.push_back(2); });
    outbox.deliver();
    calls.push_back(1);
  });
  outbox.deliver();
  EXPECT_EQ(calls, (std::vector<int>{1, 2}));
}

TEST(Outbox, ThreadsKeepTheOrderDecidedUnderTheLock) {
  Outbox outbox;
  concurrency::Mutex mutex;
  int next = 0;
  std::vector<int> calls;  // only touched by calls, which are one at a time
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          {
            const concurrency::MutexLock lock(mutex);
            outbox.post([&calls, number = next++] { calls.push_back(number); });
          }
          outbox.deliver();
        }
      });
    }
  }
  ASSERT_EQ(calls.size(), 2000u);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(calls[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace brigade::rpc
