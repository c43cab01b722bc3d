#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

/// Medians, and how far to trust them. Medians because other programs disturb a few blocks a lot;
/// intervals by order statistics because nothing is known about the shape of the noise.
namespace brigade::benchmarks {

struct Estimate {
  double median = 0;
  /// The true median is between these with 95 % confidence (of fewer than six values: the
  /// smallest and the largest).
  double low = 0;
  double high = 0;
};

/// How many values to leave out at each end of n sorted ones: the largest k with P(Binomial(n, 1/2)
/// < k) <= 2.5 %.
inline std::size_t order_statistic(std::size_t n) {
  double term = std::pow(0.5, static_cast<double>(n));
  double below = term;
  std::size_t k = 0;
  while (below <= 0.025) {
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += term;
  }
  return k == 0 ? 0 : k - 1;
}

/// Throws std::invalid_argument if there are no values.
inline Estimate estimate(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("estimate: no values");
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  const auto skip = order_statistic(n);
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values[skip], values[n - 1 - skip]};
}

}  // namespace brigade::benchmarks
