#pragma once

#include <cstdint>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// Made-up examples that can be learned, for tests and benchmarks: each class has a random pattern,
/// and an example is its class's pattern mixed half and half with noise; all values lie in [0, 1).
/// Float features of `shape`, labels drawn evenly from 0 to `classes` - 1. A pure function of its
/// arguments; all is made here and stays in memory. Throws kInvalidArgument if `count` or a
/// dimension is negative, or `classes` less than 1.
data::Dataset<LabeledExample> synthetic(std::int64_t count, const std::vector<std::int64_t>& shape,
                                        std::int64_t classes, std::uint64_t seed = 0);

}  // namespace brigade::input
