#include "brigade/input/to_device.h"

namespace brigade::input {

at::Tensor tensor_to_device(const at::Tensor& tensor, c10::Device device) {
  return tensor.to(device, /*non_blocking=*/true);
}

}  // namespace brigade::input
