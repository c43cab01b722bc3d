#include "brigade/concurrency/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

namespace brigade::concurrency {
namespace {

using std::chrono::seconds;

TEST(ThreadPool, RefusesZeroThreadsAndEmptyTasks) {
  EXPECT_THROW(ThreadPool({.threads = 0}), Error);
  ThreadPool pool({.threads = 1});
  EXPECT_THROW(pool.submit(nullptr), Error);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  std::vector<std::atomic<int>> runs(500);
  ThreadPool pool({.threads = 3});
  for (auto& count : runs) {
    pool.submit([&count] { ++count; });
  }
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, StartsTasksInOrderOnOneThread) {
  std::vector<int> order;
  ThreadPool pool({.threads = 1});
  for (int i = 0; i < 100; ++i) pool.submit([&order, i] { order.push_back(i); });
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ThreadPool, RunsTasksAtTheSameTime) {
  // Each task waits for the other: one thread alone would never end.
  std::promise<void> first;
  std::promise<void> second;
  ThreadPool pool({.threads = 2});
  std::atomic<int> met{0};
  const auto meet = [&met](std::promise<void>& mine, std::promise<void>& other) {
    mine.set_value();
    if (other.get_future().wait_for(seconds(30)) == std::future_status::ready) ++met;
  };
  pool.submit([&] { meet(first, second); });
  pool.submit([&] { meet(second, first); });
  pool.wait_idle(CancelToken());
  EXPECT_EQ(met, 2);
}

TEST(ThreadPool, LogsWhatATaskThrowsAndContinues) {
  std::vector<std::string> messages;
  base::set_log_sink([&](base::LogLevel level, std::string_view message) {
    EXPECT_EQ(level, base::LogLevel::kError);
    messages.emplace_back(message);
  });
  bool has_run = false;
  {
    ThreadPool pool({.threads = 1, .name = "reader"});
    pool.submit([] { throw std::runtime_error("broken"); });
    pool.submit([] { throw 7; });
    pool.submit([&] { has_run = true; });
    EXPECT_TRUE(pool.wait_idle(CancelToken()));
  }
  base::set_log_sink(nullptr);
  EXPECT_TRUE(has_run);
  EXPECT_EQ(messages,
            (std::vector<std::string>{"a task of thread pool \"reader\" threw: broken",
                                      "a task of thread pool \"reader\" threw something unknown"}));
}

TEST(ThreadPool, DestructorEndsTheRunningTaskAndDropsTheRest) {
  std::promise<void> entered;
  std::promise<void> may_end;
  std::atomic<bool> has_ended{false};
  std::packaged_task<int()> dropped([] { return 1; });
  std::future<int> result = dropped.get_future();
  auto shared = std::make_shared<std::packaged_task<int()>>(std::move(dropped));
  std::thread ender;
  {
    ThreadPool pool({.threads = 1});
    pool.submit([&] {
      entered.set_value();
      may_end.get_future().wait();
      has_ended = true;
    });
    pool.submit([task = std::move(shared)] { (*task)(); });
    entered.get_future().wait();
    // Let the task end only once the dropped one is gone, which the destructor does first.
    ender = std::thread([&] {
      result.wait();
      may_end.set_value();
    });
  }
  EXPECT_TRUE(has_ended);
  EXPECT_THROW(result.get(), std::future_error);
  ender.join();
}

TEST(ThreadPool, TasksMaySubmitTasks) {
  std::atomic<int> runs{0};
  ThreadPool pool({.threads = 2});
  for (int i = 0; i < 10; ++i) {
    pool.submit([&] {
      ++runs;
      pool.submit([&] { ++runs; });
    });
  }
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  EXPECT_EQ(runs, 20);
}

TEST(ThreadPool, WaitIdleEndsWhenCancelled) {
  std::promise<void> may_end;
  std::future<void> end = may_end.get_future();
  ThreadPool pool({.threads = 1});
  pool.submit([&] { end.wait(); });
  const CancelToken cancel;
  auto wait = std::async(std::launch::async, [&] { return pool.wait_idle(cancel); });
  cancel.cancel();
  ASSERT_EQ(wait.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_FALSE(wait.get());
  may_end.set_value();
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
}

TEST(ThreadPool, WaitIdleInsideATaskIsRefused) {
  std::promise<ErrorCode> code;
  ThreadPool pool({.threads = 1});
  pool.submit([&] {
    try {
      pool.wait_idle(CancelToken());
    } catch (const Error& error) {
      code.set_value(error.code());
    }
  });
  auto result = code.get_future();
  ASSERT_EQ(result.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_EQ(result.get(), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::concurrency
