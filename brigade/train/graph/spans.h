#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/summary/trace.h"

namespace brigade::train {

/// What took how long, while somebody wants to know: a profiler turns it on for a range of steps,
/// and otherwise a measured part costs one look at a flag.
///
///   auto batch = spans.measure("next batch", "input", [&] { return batches.next(); });
///
/// Thread-safety: `measure` and `add` from any thread; the rest from one.
class Spans {
 public:
  /// `clock` must outlive this.
  explicit Spans(const base::Clock& clock) : clock_(clock) {}

  void start() { is_recording_ = true; }
  /// Stops, and gives out what was recorded, in the order in which it ended.
  std::vector<summary::TraceEvent> stop();
  bool is_recording() const { return is_recording_; }

  /// Calls `function` and returns what it returns; what it threw is recorded, too.
  template <class Function>
  auto measure(std::string_view name, std::string_view category, Function&& function,
               std::int64_t replica = 0) {
    const Ended ended(*this, name, category, replica);
    return std::forward<Function>(function)();
  }
  /// Nothing while it is off.
  void add(summary::TraceEvent event);

 private:
  class Ended {
   public:
    Ended(Spans& spans, std::string_view name, std::string_view category, std::int64_t replica);
    ~Ended();
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;

   private:
    Spans* spans_;  // null: was off at the beginning
    summary::TraceEvent event_;
  };
  std::chrono::nanoseconds now() const { return clock_.now().time_since_epoch(); }

  const base::Clock& clock_;
  std::atomic<bool> is_recording_{false};
  concurrency::Mutex mutex_;
  std::vector<summary::TraceEvent> events_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::train
