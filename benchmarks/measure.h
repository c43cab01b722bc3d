#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

/// Clocks, and timing in blocks of steps: the same rule as peers/measure.py, so that figures
/// compare.

/// Medians, and how far to trust them. Medians because other programs disturb a few blocks a lot;
/// intervals by order statistics because nothing is known about the shape of the noise.
namespace brigade::benchmarks {

struct Cost {
  double wall_seconds = 0;
  /// Of all threads of this process: what other programs do disturbs it less than the wall clock.
  double cpu_seconds = 0;
};

inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Loop>
Cost cost_of_block(Loop& loop, int steps) {
  const double cpu = cpu_seconds(), wall = wall_seconds();
  loop.run(steps);
  return {wall_seconds() - wall, cpu_seconds() - cpu};
}

/// Runs blocks of steps for about `seconds` (at least three) after a warm-up; the wall seconds of
/// each block. Where several processes must run the same number of blocks, `agree(flag)` says for
/// all of them whether to go on.
template <class Loop, class Agree = std::identity>
std::vector<double> time_blocks(Loop& loop, int steps_per_block, double warm_up_seconds,
                                double seconds, const Agree& agree = {}) {
  for (const double end = wall_seconds() + warm_up_seconds; agree(wall_seconds() < end);)
    loop.run(steps_per_block);
  std::vector<double> times;
  const double end = wall_seconds() + seconds;
  while (agree(wall_seconds() < end || times.size() < 3)) {
    times.push_back(cost_of_block(loop, steps_per_block).wall_seconds);
  }
  return times;
}

/// What `main` returns: 0, or 1 after writing what `run` throws to standard error.
template <class Run>
int run_reporting(const char* program, const Run& run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << "\n";
    return 1;
  }
}

/// The most memory this process ever held.
inline double peak_rss_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

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
