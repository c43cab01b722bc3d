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

/// Gets or creates the variable `scope/name` in the current graph's store, depending on the scope's
/// reuse. Variables are created outside of replicas only; inside, all names are reused. The initial
/// value depends only on the store's seed and the full name. TensorFlow: tf.get_variable.
///
/// Without a shape, a variable of any shape is found. The dtype is always checked: it is the
/// call's, the initializer's, the scope's, else float32. So, as in TensorFlow, the dtype must be
/// given to find an int64 variable. Custom getters of the open scopes are called before the store.
///
/// Throws kAlreadyExists if the name exists and the scope does not reuse; kNotFound if it does not
/// exist and the scope reuses; kInvalidArgument if shape or dtype differ from the existing
/// variable's (naming both), for a missing shape if the initializer has none, for a shape together
/// with an initializer that is a value, and for an initializer of another dtype;
/// kFailedPrecondition without a graph, or if the current partitioner splits the variable (use
/// `get_partitioned_variable`).
Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                      const VariableOptions& options = {});

}  // namespace brigade::variables
