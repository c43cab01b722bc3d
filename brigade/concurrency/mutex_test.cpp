#include "brigade/concurrency/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace brigade::concurrency {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Mutex, LetsOneThreadInAtATime) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        const MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(Mutex, CannotBeTakenTwice) {
  Mutex mutex;
  mutex.lock();
  bool taken = true;
  std::thread([&] {
    taken = mutex.try_lock();
    if (taken) mutex.unlock();
  }).join();
  EXPECT_FALSE(taken);
  mutex.unlock();
}

TEST(Condition, WakesTheWaiter) {
  Mutex mutex;
  Condition changed;
  int turn = 0;
  std::thread other([&] {
    const MutexLock lock(mutex);
    while (turn != 1) changed.wait(mutex);
    turn = 2;
    changed.notify_all();
  });
  bool in_time = true;
  {
    const MutexLock lock(mutex);
    turn = 1;
    changed.notify_one();
    const auto deadline = steady_clock::now() + std::chrono::seconds(30);
    while (turn != 2 && in_time) in_time = changed.wait_until(mutex, deadline);
  }
  other.join();
  EXPECT_TRUE(in_time);
}

TEST(Condition, WaitUntilEndsAtTheDeadlineAndHoldsTheMutexAgain) {
  Mutex mutex;
  Condition never;
  const auto deadline = steady_clock::now() + milliseconds(20);
  {
    const MutexLock lock(mutex);
    while (never.wait_until(mutex, deadline)) {
    }
    EXPECT_GE(steady_clock::now(), deadline);
    bool taken = true;
    std::thread([&] {
      taken = mutex.try_lock();
      if (taken) mutex.unlock();
    }).join();
    EXPECT_FALSE(taken);
  }
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace brigade::concurrency
