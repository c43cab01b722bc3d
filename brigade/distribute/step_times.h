#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/comm/step_clock.h"
#include "brigade/distribute/device_clock.h"

namespace brigade::distribute {

/// Whether a strategy measures the breakdown of its steps' time.
enum class StepMeasuring { kOff, kOn };

/// The time that one replica spent in each phase, summed over the measured steps. A step is one
/// `Strategy::run` and the `DistributedIterator::next` before it; time between the two does not
/// count.
///
/// - Input is the time in `DistributedIterator::next`, for which all replicas wait.
/// - Wait is the time in which the replica waits for a slower one: in barriers until the last
///   replica arrives, while replica 0 works for all, before the replica's thread has been woken,
///   and after its end until the slowest replica has finished.
/// - Communication and update are the times in collectives and in the optimizer's update.
/// - Compute is the rest of the step function.
///
/// The phases of every replica add up to the same total. On a CPU they are times of the replica's
/// thread, on a GPU those of the GPU itself, measured by events on the replica's stream
/// (`DeviceClock`), for which no step waits: there wait is also what the slowest replica needed
/// more.
struct StepTimes {
  std::int64_t steps = 0;
  comm::PerPhase<std::chrono::nanoseconds> phases{};

  std::chrono::nanoseconds spent(comm::StepPhase phase) const {
    return phases[static_cast<std::size_t>(phase)];
  }
  std::chrono::nanoseconds total() const;
  /// The fraction of the total spent in `phase`, 0 to 1; 0 if nothing was measured. The fractions
  /// add up to 1.
  double fraction(comm::StepPhase phase) const;
};

/// The replicas' times as a human-readable line: "step breakdown  input 1 %, compute 90 %, wait 3
/// %, communication 2 %, update 4 %". Replicas are listed separately if two differ in a phase by
/// more than 10 % of a step. Empty if nothing was measured.
std::string describe_step_breakdown(std::span<const StepTimes> replicas);

/// Measures the breakdown of a strategy's steps: one clock per replica for the running step, and
/// sums over the steps so far. While it is off, a step costs one read of a flag.
///
/// Thread-safety: input may be fetched on any thread; a `ReplicaScope` belongs to its replica's
/// thread; the rest to the thread that runs steps.
class StepMeter {
 public:
  /// A meter for `replicas` replicas (at least one), initially off.
  explicit StepMeter(int replicas);

  bool is_on() const { return on_.load(std::memory_order_relaxed); }
  void measure(StepMeasuring measuring);
  /// Before the first step: replica `replica` computes on this stream of a GPU.
  void use_stream(int replica, c10::Stream stream);
  /// Sums over the steps since the meter was made or reset: [replica]. Waits for the GPUs.
  std::vector<StepTimes> times();
  void reset();

  /// Its lifetime is the caller's wait for the next step's input. Null measures nothing.
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

  /// Called on the caller's thread before and after the replicas' work. A failed step is not
  /// finished and does not count; neither does its input.
  void begin_step();
  void finish_step();
  /// The replica's clock in the running step; null if the step is not measured.
  comm::StepClock* clock(int replica) { return measures_ ? &clocks_[replica] : nullptr; }

  /// Its lifetime is a replica's work in the step; outside of it the replica waits for the others.
  class ReplicaScope {
   public:
    ReplicaScope(StepMeter& meter, int replica);
    ~ReplicaScope();
    ReplicaScope(const ReplicaScope&) = delete;
    ReplicaScope& operator=(const ReplicaScope&) = delete;
    /// The replica's stream has been made to wait for the batch; from here on it computes.
    void has_input();

   private:
    comm::StepClock* const clock_;
    DeviceClock* const device_;  // null: a CPU's, or not measured
    const bool has_peers_;
  };

 private:
  DeviceClock* device(int replica) {
    return measures_ ? devices_[static_cast<std::size_t>(replica)].get() : nullptr;
  }
  void add(std::size_t replica, const comm::PerPhase<std::chrono::nanoseconds>& times);
  void add_input(std::chrono::nanoseconds time) {
    input_.fetch_add(time.count(), std::memory_order_relaxed);
  }

  std::atomic<bool> on_{false};
  std::atomic<std::int64_t> input_{0};      // nanoseconds since the last step
  bool measures_ = false;                   // of the running step, even if on_ changes
  std::chrono::nanoseconds step_input_{0};  // of the running step
  std::vector<comm::StepClock> clocks_;     // [replica], used by the replica's thread in a step
  std::vector<StepTimes> sums_;             // [replica], used by the caller's thread
  std::vector<std::unique_ptr<DeviceClock>> devices_;  // [replica], of GPUs; likewise
};

}  // namespace brigade::distribute
