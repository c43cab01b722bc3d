#pragma once

#include <cstdint>
#include <optional>

#include "brigade/data/dataset.h"

namespace brigade::data {

/// The numbers start, start + step, start + 2 * step, ... without end, wrapping around from 2^63 -
/// 1 to -2^63. TensorFlow counterpart: Dataset.counter.
Dataset<std::int64_t> counter(std::int64_t start = 0, std::int64_t step = 1);

/// Options of `random`.
struct RandomOptions {
  /// Seed of the numbers, independent of the job's seed. Unset: derived from the job's root seed.
  std::optional<std::uint64_t> seed{};
  /// If false, every epoch repeats the same numbers.
  bool rerandomize_each_iteration = true;
};

/// Uniformly distributed random numbers in [0, 2^32), without end. Number i is a function of (seed,
/// epoch, i), so seeking to any position is free. TensorFlow counterpart: Dataset.random, which
/// gives other numbers.
Dataset<std::int64_t> random(RandomOptions options = {});

}  // namespace brigade::data
