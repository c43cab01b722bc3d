#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/summary/trace.h"

namespace brigade::train {

/// Measures the durations of named spans. A profiler turns the recording on for a range of steps;
/// while it is off, a span costs one check of a flag.
///
///   auto batch = spans.measure("next batch", "input", [&] { return batches.next(); });
///
/// Thread-safety: `measure` and `add` may be called from any thread; everything else from one
/// thread.
class Spans {
 public:
  /// `clock` must outlive this.
  explicit Spans(const base::Clock& clock) : clock_(clock) {}

  void start() { is_recording_ = true; }
  /// Stops recording, and returns the recorded spans in the order of their ends.
  std::vector<summary::TraceEvent> stop() {
    is_recording_ = false;
    const concurrency::MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

  /// Calls `function` and returns its result; the span is also recorded if it throws.
  template <class Function>
  auto measure(std::string_view name, std::string_view category, Function&& function,
               std::int64_t replica = 0) {
    const ScopedSpan span(*this, name, category, replica);
    return std::forward<Function>(function)();
  }
  /// Does nothing while the recording is off.
  void add(summary::TraceEvent event) {
    if (!is_recording_) return;
    const concurrency::MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }

 private:
  class ScopedSpan {
   public:
    ScopedSpan(Spans& spans, std::string_view name, std::string_view category, std::int64_t replica)
        : spans_(spans.is_recording_ ? &spans : nullptr) {
      if (spans_ == nullptr) return;
      event_.name = name;
      event_.category = category;
      event_.replica = replica;
      event_.begin = spans.now();
    }
    ~ScopedSpan() {
      if (spans_ == nullptr) return;
      event_.duration = spans_->now() - event_.begin;
      spans_->add(std::move(event_));
    }
    ScopedSpan(const ScopedSpan&) = delete;
    ScopedSpan& operator=(const ScopedSpan&) = delete;

   private:
    Spans* spans_;  // null: the recording was off at the start of the span
    summary::TraceEvent event_;
  };
  std::chrono::nanoseconds now() const { return clock_.now().time_since_epoch(); }

  const base::Clock& clock_;
  std::atomic<bool> is_recording_{false};
  concurrency::Mutex mutex_;
  std::vector<summary::TraceEvent> events_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::train
