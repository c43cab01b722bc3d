#pragma once

#include "brigade/device/device_scope.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// Variables and layers made while the result lives go where `variable` lives: its slots, its
/// moving averages, the table beside the index. As `device::with_device` with that device's name;
/// scopes inside it win. TensorFlow: tf.colocate_with, StrategyExtended.colocate_vars_with.
device::DeviceScope colocate_with(const Variable& variable);

}  // namespace brigade::variables
