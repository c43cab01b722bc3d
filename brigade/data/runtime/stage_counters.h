#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

namespace brigade::data {

/// A number that several threads add to and anybody reads. Orders nothing.
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

/// What one step of a walk counts while it runs; times are in nanoseconds.
///
/// Thread-safety: as `AtomicCounter`.
struct StageCounters {
  AtomicCounter elements;         ///< That left the step.
  AtomicCounter consumer_waits;   ///< Time its consumer waited for a result.
  AtomicCounter room_waits;       ///< Time its workers waited for the consumer.
  AtomicCounter pulls;            ///< Time a worker took elements from the input, one worker at a time.
  AtomicCounter occupied;         ///< Time its workers spent on elements, their input's waits included.
  AtomicCounter cpu;              ///< Of that, time on a core.
  AtomicCounter run_delay;        ///< Besides, time they could have worked but others had the core.
  AtomicCounter takes;            ///< Chunks the consumer took.
  AtomicCounter filled_at_takes;  ///< Chunks that stood ready then, summed over the takes.
  AtomicCounter bytes;            ///< Of the elements that were measured.
  AtomicCounter sized_chunks;     ///< Chunks whose bytes were measured.
  AtomicCounter inclusive;        ///< Time in the step's `next()`, where it has no threads of its own.
};

/// Adds the time it lives to a tally.
///
/// Thread-safety: one thread.
class WaitTimer {
 public:
  /// A null tally: does nothing, and reads no clock.
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

/// The kCancelled error of a walk whose token was cancelled.
std::exception_ptr cancelled_error();

}  // namespace brigade::data
