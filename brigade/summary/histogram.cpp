#include "brigade/summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "brigade/base/error.h"

namespace brigade::summary {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

/// TensorFlow's limits. TensorFlow computes them by repeated multiplication, so this must too.
std::vector<double> default_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(kLargest);
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

/// The same histogram with consecutive empty ranges merged.
Histogram without_empty_runs(const Histogram& whole) {
  Histogram result = whole;
  result.limits.clear();
  result.counts.clear();
  for (std::size_t i = 0; i < whole.limits.size(); ++i) {
    const bool is_in_gap = !result.counts.empty() && result.counts.back() == 0;
    if (whole.counts[i] == 0 && is_in_gap) {
      result.limits.back() = whole.limits[i];
    } else {
      result.limits.push_back(whole.limits[i]);
      result.counts.push_back(whole.counts[i]);
    }
  }
  return result;
}

}  // namespace

void check_histogram(const Histogram& histogram) {
  const auto& [min, max, count, sum, sum_squares, limits, counts] = histogram;
  check_argument(!limits.empty(), "a histogram needs at least one range; it has no limits");
  check_argument(limits.size() == counts.size(), "a histogram needs one count per limit; it has ",
                 limits.size(), " limits and ", counts.size(), " counts");
  for (std::size_t i = 0; i < limits.size(); ++i) {
    check_argument(!std::isnan(limits[i]), "limit ", i, " of a histogram is NaN");
    check_argument(i == 0 || limits[i - 1] < limits[i],
                   "the limits of a histogram must be ascending; limit ", i, " is not");
    check_argument(std::isfinite(counts[i]) && counts[i] >= 0, "count ", i, " of a histogram is ",
                   counts[i], ", not a finite number of 0 or more");
  }
}

HistogramCounter::HistogramCounter() {
  total_.min = kLargest;
  total_.max = -kLargest;
  total_.limits = default_limits();
  total_.counts.assign(total_.limits.size(), 0.0);
}

void HistogramCounter::add_one(double value) {
  const std::vector<double>& limits = total_.limits;
  // The largest double is itself the last limit; it belongs to the last range.
  const auto limit = std::upper_bound(limits.begin(), limits.end() - 1, value);
  total_.counts[static_cast<std::size_t>(limit - limits.begin())] += 1;
  total_.min = std::min(total_.min, value);
  total_.max = std::max(total_.max, value);
  total_.count += 1;
  total_.sum += value;
  total_.sum_squares += value * value;
}

template <class T>
void HistogramCounter::add_all(std::span<const T> values) {
  const auto bad =
      std::find_if_not(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
  if (bad != values.end()) {
    refuse("a histogram counts finite values; value ", bad - values.begin(), " of ", values.size(),
           " is ", *bad);
  }
  for (const T value : values) add_one(value);
}

void HistogramCounter::add(std::span<const double> values) {
  add_all(values);
}
void HistogramCounter::add(std::span<const float> values) {
  add_all(values);
}

Histogram HistogramCounter::histogram() const {
  return without_empty_runs(total_);
}

}  // namespace brigade::summary
