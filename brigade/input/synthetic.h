#pragma once

#include <cstdint>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// Synthetic examples that can be learned, for tests and benchmarks: each class has a random
/// pattern, and an example is the mean of its class's pattern and noise; all values are in [0, 1).
/// Float features of `shape`, labels drawn uniformly from 0 to `classes` - 1. The result depends
/// only on the arguments; all examples are created by this call and stay in memory. Throws
/// kInvalidArgument if `count` or a dimension is negative, or `classes` less than 1.
data::Dataset<LabeledExample> synthetic(std::int64_t count, const std::vector<std::int64_t>& shape,
                                        std::int64_t classes, std::uint64_t seed = 0);

}  // namespace brigade::input
