#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace brigade::data {

/// What one step of a walk did since it was last asked to begin anew (`Iterator::stats`). Shares
/// are of time: 1 is all the time.
struct StageStats {
  /// As `Dataset::describe` names it: "map".
  std::string name;
  std::uint64_t elements = 0;
  double elements_per_second = 0;
  /// Threads of its own; 0 for a step that works on the thread of whoever asks it.
  std::size_t threads = 0;
  /// Chunks that may be under way or ready, and how many stood ready on average when the next one
  /// was taken. 0 without threads.
  std::size_t capacity = 0;
  double queue_depth = 0;
  /// On its own work: of all its threads' time, or of the walk's time where it has none.
  double busy = 0;
  /// Of that, its threads could have gone on but others had the core. 0 without threads.
  double delayed = 0;
  /// Its consumer stood still for want of a result.
  double stall = 0;
  /// It stood still for want of an element of its input.
  double starved = 0;
};

/// A table, one step a line, and a sentence that says which step holds the walk back.
std::string describe(std::span<const StageStats> stats);

/// That sentence: "decode is the bottleneck: 2 threads busy 97 %".
std::string bottleneck(std::span<const StageStats> stats);

}  // namespace brigade::data
