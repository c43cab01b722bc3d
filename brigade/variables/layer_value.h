#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/variable_options.h"

/// What layers that take their weights by name need: where to compute, and the weights there.
namespace brigade::variables {

/// Where the open device scopes want the layer of this name (whole, as `Graph::unique_name` gives
/// it); null if none has an opinion. Throws kNotFound as `device::Placer::place`.
std::optional<c10::Device> layer_device(const std::string& layer_name);

/// `input` on the device where the open device scopes want the layer, or as it is; differentiable.
/// Writes the line of the placement log. Costs nothing to speak of where no scope is open and
/// nothing is logged. Layers call it first, and compute where the result is.
at::Tensor place_layer(const std::string& layer_name, const at::Tensor& input);

/// What layers compute with: the value of `get_variable` (or of the parts, behind one another), in
/// a replica its own component, on `device`. Null: where the open device scopes want a layer of
/// this name, else where the variable lives. Copied at most once a pass and device; the gradient
/// arrives where the variable lives. Throws as `get_partitioned_variable`.
at::Tensor get_value(const std::string& name,
                     const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                     const VariableOptions& options = {},
                     std::optional<c10::Device> device = std::nullopt);

}  // namespace brigade::variables
