#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "brigade/comm/step_clock.h"

namespace brigade::distribute {

/// Whether a strategy measures what its steps spend their time on.
enum class StepMeasuring { kOff, kOn };

/// On what one replica spent the steps that were measured. A step is one `Strategy::run` and the
/// input fetched before it; what the program does between the two is no part of it.
///
/// - Input is the time in `DistributedIterator::next`, for which all replicas wait alike.
/// - Waiting is all time in which a peer is slower: in barriers until the last replica comes, while
///   replica 0 works for all, before a replica's thread has been woken, and behind its end until
///   the slowest has finished.
/// - Compute is all else in the step function.
///
/// So every replica's phases add up to the same whole. They are the time of the replica's thread:
/// on a GPU, compute is the time it takes to queue the work, and waiting for a card counts where
/// the thread does it.
struct StepTimes {
  std::int64_t steps = 0;
  comm::PerPhase<std::chrono::nanoseconds> phases{};

  std::chrono::nanoseconds spent(comm::StepPhase phase) const {
    return phases[static_cast<std::size_t>(phase)];
  }
  std::chrono::nanoseconds total() const;
  /// Of the whole, 0 to 1; 0 if nothing was measured. The phases' shares add up to 1.
  double fraction(comm::StepPhase phase) const;
};

/// The replicas' times for people: "step breakdown  input 1 %, compute 90 %, wait 3 %,
/// communication 2 %, update 4 %"; by replica if two differ in a phase by more than 10 % of a step.
/// Empty if nothing was measured.
std::string describe_step_breakdown(std::span<const StepTimes> replicas);

}  // namespace brigade::distribute
