#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

namespace brigade::data {

/// A counter that any thread may add to and read, without memory ordering.
///
/// Thread-safety: all functions from any thread.
class AtomicCounter {
 public:
  void add(std::uint64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  void add(std::chrono::nanoseconds time) { add(static_cast<std::uint64_t>(time.count())); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The statistics of one step of an iterator while it runs; times are in nanoseconds.
///
/// Thread-safety: as `AtomicCounter`.
struct StageCounters {
  AtomicCounter elements;        ///< Elements that the step returned.
  AtomicCounter consumer_waits;  ///< Time its consumer waited for a result.
  AtomicCounter room_waits;      ///< Time its workers waited for the consumer.
  AtomicCounter pulls;           ///< Time in which a worker read elements from the input.
  AtomicCounter occupied;   ///< Time its workers spent on elements, their input's waits included.
  AtomicCounter cpu;        ///< The part of `occupied` on a core.
  AtomicCounter run_delay;  ///< Time they were runnable but had no core; not in `occupied`.
  AtomicCounter takes;      ///< Chunks the consumer took.
  AtomicCounter filled_at_takes;  ///< Chunks that were ready then, summed over the takes.
  AtomicCounter bytes;            ///< Bytes of the chunks that were measured.
  AtomicCounter sized_chunks;     ///< Chunks whose bytes were measured.
  AtomicCounter inclusive;        ///< Time in the step's `next()`, if it has no threads.
};

/// Adds its lifetime to a counter.
///
/// Thread-safety: one thread.
class WaitTimer {
 public:
  /// A null `counter`: does nothing, and reads no clock.
  explicit WaitTimer(AtomicCounter* counter) : counter_(counter) {
    if (counter_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~WaitTimer() {
    if (counter_ != nullptr) counter_->add(std::chrono::steady_clock::now() - begin_);
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  AtomicCounter* const counter_;
  std::chrono::steady_clock::time_point begin_{};
};

/// The kCancelled error of an iteration whose token was cancelled.
std::exception_ptr cancelled_error();

}  // namespace brigade::data
