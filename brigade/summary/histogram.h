#pragma once

#include <span>
#include <vector>

namespace brigade::summary {

/// The number of values in each range, which TensorBoard shows as a distribution. A plain value;
/// `HistogramCounter` creates one from numbers, but any ranges are allowed.
struct Histogram {
  double min = 0;  ///< The smallest value; only valid if count is not 0, like max.
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  /// Upper ends of the ranges, ascending. Range i reaches from `limits[i - 1]` (the first one from
  /// minus infinity), included, to `limits[i]`, excluded.
  std::vector<double> limits;
  /// The number of values in each range: one count per limit.
  std::vector<double> counts;

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// Throws kInvalidArgument, saying what is wrong, unless there is at least one range, as many
/// counts as limits, the limits are ascending without NaN, and every count is finite and not
/// negative.
void check_histogram(const Histogram& histogram);

/// Sorts numbers into TensorFlow's ranges: from 1e-12 to 1e20 each a tenth wider than the previous
/// one, the same below zero, and one at each end for the rest.
///
/// Thread-safety: one thread at a time.
class HistogramCounter {
 public:
  HistogramCounter();

  /// Counts values. Throws kInvalidArgument, naming the first that is not finite and its index, as
  /// TensorFlow does; then none of `values` is counted.
  void add(std::span<const double> values);
  void add(std::span<const float> values);

  /// The histogram of the values so far, equal to TensorFlow's histogram summary of the same
  /// values: consecutive empty ranges are merged; without values, min is the largest double and max
  /// the lowest.
  Histogram histogram() const;

 private:
  template <class T>
  void add_all(std::span<const T> values);
  void add_one(double value);

  Histogram total_;  // with all ranges
};

}  // namespace brigade::summary
