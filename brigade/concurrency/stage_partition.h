#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace brigade::concurrency {

/// Divides layers with these costs (time, for example) into `stages` contiguous stages, so that the
/// most expensive stage is as cheap as possible; of several such divisions the one whose early
/// stages are longest. Returns [stage]: the index of its first layer; the first is 0. Throws
/// kInvalidArgument for a number of stages that is less than 1 or more than the layers, and for
/// costs that are negative or not finite.
std::vector<std::size_t> partition_by_cost(const std::vector<double>& costs, int stages);

/// The cost of the layers `begin` to `end` - 1 as stage number `stage`; infinity: they must not be
/// that stage.
using StageCostFunction = std::function<double(int stage, std::size_t begin, std::size_t end)>;

/// The same for costs that are no sums, or differ by stage: memory, for example. If every division
/// has a stage of infinite cost, so has the result. It calls `cost` for each stage and pair of
/// layers.
std::vector<std::size_t> partition_by_cost(std::size_t layers, int stages,
                                           const StageCostFunction& cost);

}  // namespace brigade::concurrency
