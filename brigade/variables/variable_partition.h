#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "brigade/variables/partitioned_variable.h"
#include "brigade/variables/variable_request.h"

/// How `get_variable` and related functions partition a variable. Internal.
namespace brigade::variables {

/// How to partition the variable of `request`: by its partitioner, or as the existing variable;
/// empty if it is not partitioned. Throws as `get_partitioned_variable`.
std::optional<Partition> partition_in_force(const VariableStore& store, const VariableScope& scope,
                                            const GetVariableRequest& request);

/// The axis that is split, 0 if none is.
std::size_t axis_of(const Partition& cut);
std::int64_t num_parts(const Partition& cut);

/// Gets or creates the partitions.
PartitionedVariable fetch_parts(Graph& graph, const VariableScope& scope,
                                const GetVariableRequest& request, const Partition& cut);

}  // namespace brigade::variables
