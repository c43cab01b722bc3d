#include "brigade/optim/update_scalars.h"

#include <ATen/ops/full.h>
#include <c10/core/ScalarType.h>

namespace brigade::optim {

at::Tensor step_of(const UpdateArguments& arguments) {
  if (arguments.on_device.step.defined()) return arguments.on_device.step;
  return at::full({}, static_cast<double>(arguments.step),
                  arguments.parameters.front().options().dtype(at::kFloat));
}

at::Tensor times_rate(const at::Tensor& change, const DeviceScalars& on_device) {
  const bool is_narrow = c10::isReducedFloatingType(change.scalar_type());
  return (is_narrow ? change.to(at::kFloat) : change).mul(on_device.rate);
}

}  // namespace brigade::optim
