#pragma once

#include <time.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

/// Clocks, and timing in blocks of steps: the same rule as peers/measure.py, so that figures
/// compare.
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

/// The most memory this process ever held.
inline double peak_rss_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

}  // namespace brigade::benchmarks
