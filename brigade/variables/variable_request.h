#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/graph.h"
#include "brigade/variables/variable_options.h"

/// The way of a request for a variable, in steps that `get_variable` and its kin share. For them,
/// not for users.
namespace brigade::variables {

using OptionalShape = std::optional<std::vector<std::int64_t>>;

/// What a call in the scope `scope` asks for: its name with the scope's, its options over the
/// scope's defaults, and a dtype in any case.
GetVariableRequest make_request(const VariableScope& scope, const std::string& name,
                                const OptionalShape& shape, const VariableOptions& options);

/// As the placement log writes a device: "cpu:0", "gpu:1".
std::string device_text(c10::Device device);

/// What the scope says, but inside a replica names are always found.
Reuse reuse_in_force(const VariableScope& scope);

/// Sends the request through the scope's custom getters, at whose end the variable is found or
/// made. `reuse` stands for the scope's word.
Variable fetch(Graph& graph, const CustomGetter& getter, Reuse reuse,
               const GetVariableRequest& request);
Variable fetch(Graph& graph, const VariableScope& scope, const GetVariableRequest& request);

/// The shape asked for, or that of an initializer that is a value; empty if neither is known.
/// Throws kInvalidArgument if both are given, or for an initializer of another dtype.
OptionalShape check_initializer(const GetVariableRequest& request);

/// The first value of the variable `request.name`. Depends on the store's seed and the name, not on
/// the order of making. Throws kInvalidArgument for an unknown shape.
at::Tensor initial_value(const VariableStore& store, const GetVariableRequest& request);

}  // namespace brigade::variables
