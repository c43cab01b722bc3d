#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"

namespace brigade::benchmarks {

/// The settings that a user would choose, or `data::kAutotune` for each of them.
struct InputSettings {
  std::int64_t map_threads = data::kAutotune;
  std::int64_t second_map_threads = data::kAutotune;
  std::int64_t prefetch = data::kAutotune;
};

/// An infinite pipeline with several tunable steps.
struct TunedPipeline {
  using Batch = std::vector<std::uint64_t>;

  std::string name;
  std::string description;
  std::function<data::Dataset<Batch>(const InputSettings&)> make;
  /// Batches that take some ten milliseconds.
  int batches_a_step = 1;
  /// Settings by hand that may be best on this machine.
  std::vector<InputSettings> by_hand{};
};

/// heavy, cheap, uneven, two_maps and reads.
std::vector<TunedPipeline> tuned_pipelines();

/// "2 threads, prefetch 4"; what is not set by hand is "auto".
std::string to_string(const InputSettings& settings);

}  // namespace brigade::benchmarks
