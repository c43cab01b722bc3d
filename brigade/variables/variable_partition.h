#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "brigade/variables/partitioned_variable.h"
#include "brigade/variables/variable_request.h"

/// How `get_variable` and its kin cut a variable. For them, not for users.
namespace brigade::variables {

/// How `request` is to be cut: by its partitioner, or as the variable was cut before; empty if it
/// stays whole. Throws as `get_partitioned_variable`.
std::optional<Partition> partition_in_force(const VariableStore& store, const VariableScope& scope,
                                            const GetVariableRequest& request);

/// The axis that is cut, 0 if none is.
std::size_t axis_of(const Partition& cut);
std::int64_t num_parts(const Partition& cut);

/// Finds or makes the parts.
PartitionedVariable fetch_parts(Graph& graph, const VariableScope& scope,
                                const GetVariableRequest& request, const Partition& cut);

}  // namespace brigade::variables
