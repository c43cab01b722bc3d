#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/graph.h"
#include "brigade/variables/variable_options.h"

/// The steps of a request for a variable, shared by `get_variable` and related functions. Internal.
namespace brigade::variables {

using OptionalShape = std::optional<std::vector<std::int64_t>>;

/// The request of a call in the scope `scope`: its full name, its options merged over the scope's
/// defaults, and always a dtype.
GetVariableRequest make_request(const VariableScope& scope, const std::string& name,
                                const OptionalShape& shape, const VariableOptions& options);

/// A device as in the placement log: "cpu:0", "gpu:1".
std::string device_text(c10::Device device);

/// "name/part_": what the names of the partitions of a variable begin with.
std::string partition_prefix(const std::string& name);

/// The scope's reuse; inside a replica always kYes.
Reuse reuse_in_force(const VariableScope& scope);

/// Sends the request through the scope's custom getters, after which the variable is found or
/// created. `reuse` replaces the scope's reuse.
Variable fetch(Graph& graph, const CustomGetter& getter, Reuse reuse,
               const GetVariableRequest& request);
Variable fetch(Graph& graph, const VariableScope& scope, const GetVariableRequest& request);

/// The requested shape, or that of an initializer that is a value; empty if neither is known.
/// Throws kInvalidArgument if both are given, or for an initializer of another dtype.
OptionalShape check_initializer(const GetVariableRequest& request);

/// The initial value of the variable `request.name`. Depends on the store's seed and the name, not
/// on the order of creation. Throws kInvalidArgument for an unknown shape.
at::Tensor initial_value(const VariableStore& store, const GetVariableRequest& request);

}  // namespace brigade::variables
