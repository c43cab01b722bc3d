#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/layer_value.h"           // the variable's value where a layer computes
#include "brigade/variables/partitioned_variable.h"  // variables in parts
#include "brigade/variables/variable_lists.h"        // variables by collection
#include "brigade/variables/variable_options.h"

namespace brigade::variables {

/// Finds or makes the variable `scope/name` of the current graph's store: makes it if the scope
/// creates, finds it if the scope reuses. Outside of replicas only does it make one; inside, all
/// names are reused. The first value depends on the store's seed and the full name alone.
/// TensorFlow: tf.get_variable.
///
/// Without a shape any shape is found. The dtype is always asked for: the call's, the
/// initializer's, the scope's, else float32; so, as in TensorFlow, an int64 variable is not found
/// without naming its dtype. Custom getters of the open scopes stand between the call and the
/// store.
///
/// Throws kAlreadyExists if the name exists and the scope does not reuse; kNotFound if it does not
/// exist and the scope reuses; kInvalidArgument if shape or dtype differ from the existing
/// variable's (naming both), for no shape where the initializer brings none, for a shape beside an
/// initializer that is a value, and for an initializer of another dtype; kFailedPrecondition
/// without a graph, or if the partitioner in force cuts the variable (use
/// `get_partitioned_variable`).
Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                      const VariableOptions& options = {});

}  // namespace brigade::variables
