#pragma once

#include <chrono>

#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data {

/// Measures a worker thread of a pipelined step: how long it was occupied with elements, and how
/// much of that it was on a core. Occupied is the time since it started, without its waits to read
/// the input and without the time in which it was runnable but had no core. Reads the thread's
/// clocks only every few milliseconds.
///
/// Thread-safety: used by its thread alone.
class WorkerMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// A null `counters`: measures nothing.
  explicit WorkerMeter(StageCounters* counters);
  ~WorkerMeter();
  WorkerMeter(const WorkerMeter&) = delete;
  WorkerMeter& operator=(const WorkerMeter&) = delete;

  /// The worker starts to read the elements of a chunk. Since its last chunk it has waited.
  void begin_chunk(Clock::time_point now);
  /// The worker has read the elements.
  void end_pull();
  /// The worker has processed the elements.
  void end_chunk(Clock::time_point now);

 private:
  struct Usage {
    std::chrono::nanoseconds cpu{0};
    std::chrono::nanoseconds run_delay{0};
  };
  Usage usage() const;
  void report(Clock::time_point now);

  StageCounters* const counters_;
  int schedstat_ = -1;
  Usage reported_{};
  Clock::time_point reported_at_{};
  Clock::time_point last_end_{};
  Clock::time_point pull_began_{};
  std::chrono::nanoseconds waited_{0};  // since the last report
};

}  // namespace brigade::data
