#pragma once

#include <chrono>

#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data {

/// What a worker thread of a pipelined step reports about itself: how long it was occupied with
/// elements, which is the time since it began, less its waits for its turn and less the time in
/// which it could have run but others had the core; and how much of that it computed. Reads the
/// thread's clocks every few milliseconds only.
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

  /// The worker has waited until now since the end of its last chunk, and begins to pull.
  void begin_chunk(Clock::time_point now);
  /// It has its elements.
  void end_pull();
  /// The chunk is done.
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
