#include "brigade/concurrency/shared_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/barrier.h"

namespace brigade::concurrency {
namespace {

/// Runs one thread for each task, and returns when all have ended.
template <class Body>
void run_tasks(int tasks, const Body& body) {
  std::vector<std::thread> threads;
  for (int task = 0; task < tasks; ++task) threads.emplace_back([&body, task] { body(task); });
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedSlots, OneTaskOfASlotComputesAtATimeAlsoBetweenCollectives) {
  constexpr int kTasks = 6;
  const std::vector<int> slot_of_task = {0, 0, 0, 1, 1, 2};
  SharedSlots slots(slot_of_task);
  Barrier barrier({.parties = kTasks, .spin = std::chrono::microseconds(0)});
  std::vector<std::atomic<int>> computing(3);
  std::atomic<int> overlaps{0};
  std::vector<int> unguarded(3, 0);  // a race unless the slots exclude one another's tasks
  const auto compute = [&](int task) {
    const auto slot = static_cast<std::size_t>(slot_of_task[static_cast<std::size_t>(task)]);
    if (computing[slot].fetch_add(1) != 0) ++overlaps;
    ++unguarded[slot];
    computing[slot].fetch_sub(1);
  };
  run_tasks(kTasks, [&](int task) {
    const SharedSlots::Hold hold(&slots, task);
    for (int step = 0; step < 200; ++step) {
      compute(task);
      const SharedSlots::Yield yield(&slots, task);
      barrier.arrive_and_wait(task);
    }
  });
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(unguarded, (std::vector<int>{600, 400, 200}));
}

TEST(SharedSlots, TasksBeginInTheOrderOfTheirNumbersWhicheverThreadComesFirst) {
  constexpr int kTasks = 5;
  SharedSlots slots(std::vector<int>(kTasks, 0));
  for (int round = 0; round < 20; ++round) {
    std::vector<int> order;  // guarded by the slot
    slots.start();
    std::vector<std::thread> threads;
    for (const int task : {4, 2, 0, 3, 1}) {
      threads.emplace_back([&, task] {
        const SharedSlots::Hold hold(&slots, task);
        order.push_back(task);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  }
}

TEST(SharedSlots, ATaskAloneInItsSlotNeverWaits) {
  SharedSlots slots({7, 3, 3});
  EXPECT_FALSE(slots.is_shared(0));
  EXPECT_TRUE(slots.is_shared(1));
  slots.acquire(0);
  slots.acquire(0);
  slots.release(0);
}

TEST(SharedSlots, ATaskThatThrowsWhileItWaitsHasItsSlotAgain) {
  SharedSlots slots({0, 0});
  slots.acquire(0);
  try {
    const SharedSlots::Yield yield(&slots, 0);
    throw Error(ErrorCode::kAborted, "lost");
  } catch (const Error&) {
  }
  std::atomic<bool> entered{false};
  std::thread other([&] {
    const SharedSlots::Hold hold(&slots, 1);
    entered = true;
  });
  EXPECT_FALSE(entered);
  slots.release(0);
  other.join();
  EXPECT_TRUE(entered);
}

TEST(SharedSlots, RefusesNegativeNumbers) {
  try {
    SharedSlots({0, -1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace brigade::concurrency
