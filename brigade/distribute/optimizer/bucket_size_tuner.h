#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brigade::distribute {

struct BucketSizeTunerOptions {
  /// Steps that are not measured at the start, which create threads, caches and connections.
  int warm_up_steps = 10;
  /// Steps that each size gets in a round. The first of them is not measured.
  int steps_per_round = 6;
  /// The number of rounds over all sizes, so that other load on the machine averages out.
  int rounds = 5;
  /// The fraction by which a size must be faster than the first one (a single bucket after
  /// backward) to be chosen.
  double least_gain = 0.02;
};

/// Finds the fastest size of gradient buckets: the first steps try each size in several rounds, and
/// the size with the shortest median step is kept. It only counts and times steps. All processes
/// are in the same step, so all try the same size at the same time; one process chooses (their
/// clocks differ) and sends its choice to the others.
///
/// Thread-safety: one thread at a time.
class BucketSizeTuner {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Sizes in bytes; the first is the baseline. Throws kInvalidArgument if there is none.
  explicit BucketSizeTuner(std::vector<std::int64_t> sizes, BucketSizeTunerOptions options = {});

  /// The sizes to try for a model of `model_bytes`: 0, and those of 1, 4, 16 and 64 MiB that are
  /// smaller than the model.
  static std::vector<std::int64_t> sizes_for(std::int64_t model_bytes);

  /// The size that the next step uses.
  std::int64_t bytes_per_pack() const;
  /// A step has ended at `now`.
  void step_done(Time now);
  /// Whether all sizes have been tried and none is chosen yet: all processes must agree on one now.
  bool is_due() const { return !is_settled_ && position_ >= trial_steps(); }
  /// Whether the size is final. True from the start if there is only one size.
  bool is_settled() const { return is_settled_; }
  /// The index of the fastest size, by the measured times.
  std::size_t best() const;
  /// Makes the size with this index final. Throws kInvalidArgument if there is no such index.
  void settle(std::size_t size);
  /// The choice and the measured times, as a sentence.
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
