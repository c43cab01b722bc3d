#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "brigade/comm/step_clock.h"
#include "brigade/distribute/step_times.h"

namespace brigade::distribute {

/// What a strategy's steps spend their time on: a clock a replica for the step that runs, and the
/// sums over the steps so far. While it is off, a step costs one look at a flag.
///
/// Thread-safety: input may be fetched on any thread; a `ReplicaScope` belongs to its replica's
/// thread; the rest to the thread that runs steps.
class StepMeter {
 public:
  /// Of `replicas` replicas, at least one; off.
  explicit StepMeter(int replicas);

  bool is_on() const { return on_.load(std::memory_order_relaxed); }
  void measure(StepMeasuring measuring);
  /// Of the steps since the meter was made or reset: [replica].
  const std::vector<StepTimes>& times() const { return sums_; }
  void reset();

  /// While it lives, the caller waits for the next step's input. Null measures nothing.
  class InputScope {
   public:
    explicit InputScope(StepMeter* meter) : meter_(meter && meter->is_on() ? meter : nullptr) {
      if (meter_) begin_ = std::chrono::steady_clock::now();
    }
    ~InputScope() {
      if (meter_) meter_->add_input(std::chrono::steady_clock::now() - begin_);
    }
    InputScope(const InputScope&) = delete;
    InputScope& operator=(const InputScope&) = delete;

   private:
    StepMeter* const meter_;
    std::chrono::steady_clock::time_point begin_;
  };

  /// Around the replicas' work, on the caller's thread. A step that is not finished (it failed)
  /// does not count, nor does its input.
  void begin_step();
  void finish_step();
  /// The replica's clock in the step that runs; null if that is not measured.
  comm::StepClock* clock(int replica) { return measures_ ? &clocks_[replica] : nullptr; }

  /// A replica's part of the step: what it does not spend in here, it waits for the others.
  class ReplicaScope {
   public:
    ReplicaScope(StepMeter& meter, int replica);
    ~ReplicaScope();
    ReplicaScope(const ReplicaScope&) = delete;
    ReplicaScope& operator=(const ReplicaScope&) = delete;

   private:
    comm::StepClock* const clock_;
    const bool has_peers_;
  };

 private:
  void add_input(std::chrono::nanoseconds time) {
    input_.fetch_add(time.count(), std::memory_order_relaxed);
  }

  std::atomic<bool> on_{false};
  std::atomic<std::int64_t> input_{0};      // nanoseconds since the last step
  bool measures_ = false;                   // the step that runs, whatever on_ becomes meanwhile
  std::chrono::nanoseconds step_input_{0};  // of the step that runs
  std::vector<comm::StepClock> clocks_;     // [replica], each its thread's in a step
  std::vector<StepTimes> sums_;             // [replica], the caller's
};

}  // namespace brigade::distribute
