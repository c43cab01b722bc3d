#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <utility>

/// For tests of what waits: work on a thread of its own, and whether it has come to an end.
namespace brigade::concurrency::testing {

/// A test that waits this long has failed.
inline constexpr auto kLong = std::chrono::seconds(30);
/// Gives a wrong implementation time to return.
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

/// What `start` came to, waited for, but not forever.
template <class T>
T result_of(std::future<T>& future) {
  EXPECT_EQ(future.wait_for(kLong), std::future_status::ready);
  return future.get();
}

}  // namespace brigade::concurrency::testing
