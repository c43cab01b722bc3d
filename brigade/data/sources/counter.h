#pragma once

#include <cstdint>
#include <optional>

#include "brigade/data/dataset.h"

namespace brigade::data {

/// The numbers start, start + step, start + 2 * step, ... without end; past 2^63 - 1 they go on
/// from -2^63. TensorFlow counterpart: Dataset.counter.
Dataset<std::int64_t> counter(std::int64_t start = 0, std::int64_t step = 1);

enum class Redraw {
  kOn,   ///< Every epoch has numbers of its own.
  kOff,  ///< Every epoch repeats the same numbers.
};

struct RandomOptions {
  /// Fixes the numbers whatever the job's seed. Unset: derived from the job's root seed.
  std::optional<std::uint64_t> seed{};
  Redraw rerandomize_each_iteration = Redraw::kOn;
};

/// Random numbers in [0, 2^32), each as likely as the others, without end. Number i is a function
/// of (seed, epoch, i), so any place can be gone to at no cost. TensorFlow counterpart:
/// Dataset.random, whose numbers are others.
Dataset<std::int64_t> random(RandomOptions options = {});

}  // namespace brigade::data
