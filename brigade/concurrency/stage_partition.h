#pragma once

#include <cstddef>
#include <vector>

namespace brigade::concurrency {

/// Divides layers with these costs (time, for example) into `stages` contiguous stages, so that the
/// most expensive stage is as cheap as possible; of several such divisions the one whose early
/// stages are longest. Returns [stage]: the index of its first layer; the first is 0. Throws
/// kInvalidArgument for a number of stages that is less than 1 or more than the layers, and for
/// costs that are negative or not finite.
std::vector<std::size_t> partition_by_cost(const std::vector<double>& costs, int stages);

}  // namespace brigade::concurrency
