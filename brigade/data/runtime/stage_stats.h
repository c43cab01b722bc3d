#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace brigade::data {

/// The statistics of one step of an iterator (`Iterator::stats`), since it was created or cleared.
/// Fractions are of time: 1 is all the time.
struct StageStats {
  /// As `Dataset::describe` names it: "map".
  std::string name;
  std::uint64_t elements = 0;
  double elements_per_second = 0;
  /// Its worker threads; 0 for a step that runs on the thread of its consumer.
  std::size_t threads = 0;
  /// The most chunks in progress or ready, and how many were ready on average when the next one was
  /// taken. 0 without threads.
  std::size_t capacity = 0;
  double queue_depth = 0;
  /// Fraction spent on its own work: of the time of all its threads, or of the total time if it has
  /// none.
  double busy = 0;
  /// The part of `busy` in which its threads were runnable but had no core. 0 without threads.
  double delayed = 0;
  /// Fraction in which its consumer waited for a result.
  double stall = 0;
  /// Fraction in which it waited for an element of its input.
  double starved = 0;
};

/// A table with one line per step, and a sentence that names the bottleneck.
std::string describe(std::span<const StageStats> stats);

/// The sentence: "decode is the bottleneck: 2 threads busy 97 %".
std::string bottleneck(std::span<const StageStats> stats);

}  // namespace brigade::data
