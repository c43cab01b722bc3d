#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/device/device_scope.h"
#include "brigade/variables/variable.h"
#include "brigade/variables/variable_options.h"

/// For layers that get their weights by name: the device to compute on, and the weights there; and
/// for code that creates variables beside another.
namespace brigade::variables {

/// The device that the open device scopes choose for the layer with this full name (from
/// `Graph::unique_name`); null if no scope chooses one, and in pipelines. Throws kNotFound as
/// `device::Placer::place`.
std::optional<c10::Device> layer_device(const std::string& layer_name);

/// `input` on the device that the open device scopes choose for the layer, or unchanged;
/// differentiable; in a pipeline, `input` in the stage of that device. Writes a line of the
/// placement log. The cost is negligible if no scope is open and nothing is logged. Layers call it
/// first, and compute on the device of the result.
at::Tensor place_layer(const std::string& layer_name, const at::Tensor& input);

/// The value that a layer computes with: the value of `get_variable` (or of its partitions,
/// concatenated), in a replica its own component, on `device`. Null: on the device that the open
/// device scopes choose for a layer of this name, else on the variable's device. Copied at most
/// once per pass and device; the gradient arrives on the variable's device. Throws as
/// `get_partitioned_variable`.
at::Tensor get_value(const std::string& name,
                     const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                     const VariableOptions& options = {},
                     std::optional<c10::Device> device = std::nullopt);

/// While the result is alive, new variables and layers are placed on the device of `variable`: its
/// slots, its moving averages, a table for its index. Equivalent to `device::with_device` with that
/// device's name; inner scopes take precedence. TensorFlow: tf.colocate_with,
/// StrategyExtended.colocate_vars_with.
device::DeviceScope colocate_with(const Variable& variable);

}  // namespace brigade::variables
