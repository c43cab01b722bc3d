#pragma once

#include "brigade/device/device_scope.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// While the result is alive, new variables and layers are placed on the device of `variable`: its
/// slots, its moving averages, a table for its index. Equivalent to `device::with_device` with that
/// device's name; inner scopes take precedence. TensorFlow: tf.colocate_with,
/// StrategyExtended.colocate_vars_with.
device::DeviceScope colocate_with(const Variable& variable);

}  // namespace brigade::variables
