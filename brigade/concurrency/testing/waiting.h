#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <utility>

/// Helpers for tests of blocking calls: run work on a separate thread and check whether it has
/// ended.
namespace brigade::concurrency::testing {

/// A wait longer than this is a failure.
inline constexpr auto kLong = std::chrono::seconds(30);
/// The time in which a wrong implementation would return.
inline constexpr auto kShort = std::chrono::milliseconds(20);

/// Runs `work` on a thread; see `result_of`.
template <class Work>
auto start(Work work) {
  return std::async(std::launch::async, std::move(work));
}

template <class T>
bool still_waits(std::future<T>& future) {
  return future.wait_for(kShort) == std::future_status::timeout;
}

/// The result of the work that `start` began; fails the test after kLong.
template <class T>
T result_of(std::future<T>& future) {
  EXPECT_EQ(future.wait_for(kLong), std::future_status::ready);
  return future.get();
}

}  // namespace brigade::concurrency::testing
