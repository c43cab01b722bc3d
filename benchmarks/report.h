#pragma once

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/measure.h"

namespace brigade::benchmarks {

struct Run {
  std::string name;
  int replicas = 1;
  std::int64_t batch_size = 128;
  int steps_per_block = 5;
  /// Of the other processes of the run.
  double other_peak_rss_mib = 0;
  /// MiB of variables and optimizer slots.
  std::map<std::string, double> memory_by_device = {};
};

/// Prints the one JSON line that bench.py reads, with the same fields as peers/measure.py.
inline void report(const Run& run, const std::vector<double>& block_seconds) {
  const double images = static_cast<double>(run.replicas * run.batch_size * run.steps_per_block);
  const double block = estimate(block_seconds).median;
  const double best = *std::min_element(block_seconds.begin(), block_seconds.end());
  std::cout << "{\"name\": \"" << run.name << "\", \"replicas\": " << run.replicas
            << ", \"images_per_second\": " << images / block
            << ", \"best_images_per_second\": " << images / best
            << ", \"step_microseconds\": " << block / run.steps_per_block * 1e6
            << ", \"blocks\": " << block_seconds.size()
            << ", \"peak_rss_mib\": " << peak_rss_mib() + run.other_peak_rss_mib
            << ", \"memory_by_device\": {";
  const char* comma = "";
  for (const auto& [device, mebibytes] : run.memory_by_device) {
    std::cout << comma << "\"" << device << "\": " << mebibytes;
    comma = ", ";
  }
  std::cout << "}}" << std::endl;
}

}  // namespace brigade::benchmarks
