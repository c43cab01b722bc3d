#pragma once

#include <span>
#include <vector>

namespace brigade::summary {

/// How many values lie in which range: what TensorBoard draws as a distribution. A plain value;
/// `HistogramCounter` makes one of numbers, but any ranges will do.
struct Histogram {
  double min = 0;  ///< The smallest value; only means something if count is not 0, as max does.
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  /// Upper ends of the ranges, rising. Range i reaches from `limits[i - 1]` (the first one from
  /// minus infinity), included, to `limits[i]`, excluded.
  std::vector<double> limits;
  /// How many values lie in each range: as many numbers as limits.
  std::vector<double> counts;

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// Throws kInvalidArgument, saying what is wrong, unless there is at least one range, as many
/// counts as limits, the limits rise and are no NaN, and no count is negative or not finite.
void check_histogram(const Histogram& histogram);

/// Sorts numbers into TensorFlow's ranges: from 1e-12 to 1e20 each a tenth wider than the one
/// before, the same below zero, and one at each end for the rest.
///
/// Thread-safety: one thread at a time.
class HistogramCounter {
 public:
  HistogramCounter();

  /// Counts values. Throws kInvalidArgument, naming the first that is not finite and its index, as
  /// TensorFlow does; then none of `values` is counted.
  void add(std::span<const double> values);
  void add(std::span<const float> values);

  /// What was counted so far, equal to what TensorFlow's histogram summary gives for the same
  /// values: each run of empty ranges is one; of no values, min is the largest double and max the
  /// lowest.
  Histogram histogram() const;

 private:
  template <class T>
  void add_all(std::span<const T> values);
  void add_one(double value);

  Histogram total_;  // with all ranges
};

}  // namespace brigade::summary
