#include "brigade/concurrency/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
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
  EXPECT_THROW(ThreadPool(0), Error);
  ThreadPool pool(1);
  EXPECT_THROW(pool.submit(nullptr), Error);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  std::vector<std::atomic<int>> runs(500);
  ThreadPool pool(3);
  EXPECT_EQ(pool.threads(), 3u);
  for (auto& count : runs) {
    pool.submit([&count] { ++count; });
  }
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, StartsTasksInOrderOnOneThread) {
  std::vector<int> order;
  ThreadPool pool(1);
  for (int i = 0; i < 100; ++i) pool.submit([&order, i] { order.push_back(i); });
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ThreadPool, RunsTasksAtTheSameTime) {
  // Each task waits for the other: one thread alone would never end.
  std::promise<void> first;
  std::promise<void> second;
  ThreadPool pool(2);
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

TEST(ThreadPool, ContinuesAfterATaskThrows) {
  std::string caught;
  ThreadPool pool({.threads = 1, .on_error = [&caught](std::exception_ptr error) {
                     try {
                       std::rethrow_exception(std::move(error));
                     } catch (const std::exception& exception) {
                       caught = exception.what();
                     }
                   }});
  bool has_run = false;
  pool.submit([] { throw std::runtime_error("broken"); });
  pool.submit([&] { has_run = true; });
  EXPECT_TRUE(pool.wait_idle(CancelToken()));
  EXPECT_TRUE(has_run);
  EXPECT_EQ(caught, "broken");
}

TEST(ThreadPool, LogsWhatATaskThrowsByDefault) {
  std::vector<std::string> messages;
  base::set_log_sink([&](base::LogLevel level, std::string_view message) {
    EXPECT_EQ(level, base::LogLevel::kError);
    messages.emplace_back(message);
  });
  {
    ThreadPool pool({.threads = 1, .name = "reader"});
    pool.submit([] { throw std::runtime_error("broken"); });
    pool.submit([] { throw 7; });
    pool.wait_idle(CancelToken());
  }
  base::set_log_sink(nullptr);
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
    ThreadPool pool(1);
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
  ThreadPool pool(2);
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
  ThreadPool pool(1);
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
  ThreadPool pool(1);
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

TEST(ThreadPool, RunsOnStartOnceInEachThread) {
  std::mutex mutex;
  std::set<std::size_t> numbers;
  std::set<std::thread::id> ids;
  ThreadPool pool({.threads = 3, .on_start = [&](std::size_t number) {
                     const std::lock_guard<std::mutex> lock(mutex);
                     numbers.insert(number);
                     ids.insert(std::this_thread::get_id());
                   }});
  EXPECT_EQ(numbers, (std::set<std::size_t>{0, 1, 2}));
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
}

TEST(ThreadPool, ThrowsWhatOnStartThrows) {
  const auto refuse = [](std::size_t number) {
    if (number == 1) throw std::runtime_error("no such core");
  };
  EXPECT_THROW(ThreadPool({.threads = 2, .on_start = refuse}), std::runtime_error);
}

}  // namespace
}  // namespace brigade::concurrency
