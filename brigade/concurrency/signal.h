#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace brigade::concurrency {

/// A monotonic counter that threads can wait for: the cheapest way to pass work from one thread to
/// another many thousand times a second. A waiter polls for a while, then sleeps. Everything
/// written before `raise` is visible after the wait that it ends.
///
/// Thread-safety: all members from any thread.
class Signal {
 public:
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_acquire); }

  /// Adds one and wakes all waiters.
  void raise();

  /// Returns true once the value is at least `target`, false if that takes longer than `timeout`.
  /// Polls for `spin` first.
  bool wait_for(std::uint64_t target, std::chrono::microseconds spin,
                std::chrono::milliseconds timeout);

 private:
  std::atomic<std::uint64_t> value_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;  // guards nothing but the sleep
  std::condition_variable raised_;
};

}  // namespace brigade::concurrency
