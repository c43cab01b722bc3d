#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// For rules: the number of this update as libtorch's fused kernels take it, a float32 scalar on
/// the parameters' device.
at::Tensor step_of(const UpdateArguments& arguments);

/// For rules made of several operations: `change` times a learning rate that is on the device. Half
/// and bfloat16 become float32, for the rate must not be rounded to them.
at::Tensor times_rate(const at::Tensor& change, const DeviceScalars& on_device);

}  // namespace brigade::optim
