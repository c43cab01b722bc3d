#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brigade::distribute {

struct BucketSizeTunerOptions {
  /// Steps before anything counts: the first ones make threads, caches and connections.
  int warm_up_steps = 10;
  /// Each turn gives one size so many steps, of which the first does not count.
  int steps_per_round = 6;
  /// So many turns each size has: between them the machine's other loads even out.
  int rounds = 5;
  /// By how much a size must beat the first one, everything in one behind backward, to be taken.
  double least_gain = 0.02;
};

/// Finds out how large the packs should be in which gradients travel: the first steps try each
/// size, in turns, and the one whose median step is the shortest stays. It only counts steps and
/// times: all processes are at the same step, so all try the same size at the same time; the choice
/// is one process's (their clocks differ), which tells the others.
///
/// Thread-safety: one thread at a time.
class BucketSizeTuner {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Sizes in bytes; the first is the one to beat. Throws kInvalidArgument if there is none.
  explicit BucketSizeTuner(std::vector<std::int64_t> sizes, BucketSizeTunerOptions options = {});

  /// The sizes to try for a model of so many bytes: 0, and of 1, 4, 16 and 64 MiB those that cut
  /// it.
  static std::vector<std::int64_t> sizes_for(std::int64_t model_bytes);

  /// What the next step uses.
  std::int64_t bytes_per_pack() const;
  /// A step has ended at `now`.
  void step_done(Time now);
  /// Whether all sizes are tried and none is chosen: time for all to agree on one.
  bool is_due() const { return !is_settled_ && position_ >= trial_steps(); }
  /// Whether the size stays as it is. From the start, if there is only one.
  bool is_settled() const { return is_settled_; }
  /// By these times, which size to take: an index.
  std::size_t best() const;
  /// Takes this size for good. Throws kInvalidArgument for an index that is none.
  void settle(std::size_t size);
  /// What was chosen, and by which times, as a sentence.
  std::string report() const;

 private:
  std::int64_t trial_steps() const;
  std::size_t tried_at(std::int64_t position) const;
  double median_seconds(std::size_t size) const;

  const std::vector<std::int64_t> sizes_;
  const BucketSizeTunerOptions options_;
  std::int64_t position_;  // steps done of the trial; negative while warming up
  Time last_ = {};
  std::vector<std::vector<double>> seconds_;  // [size]
  std::size_t chosen_ = 0;
  bool is_settled_ = false;
};

}  // namespace brigade::distribute
