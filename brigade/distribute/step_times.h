#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "brigade/comm/step_clock.h"

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
/// The phases of every replica add up to the same total. They are times of the replica's thread: on
/// a GPU, compute is the time that it takes to queue the work, and waiting for the GPU counts in
/// the phase in which the thread waits.
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

}  // namespace brigade::distribute
