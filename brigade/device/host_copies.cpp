#include "brigade/device/host_copies.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "brigade/device/stream.h"

namespace brigade::device {

at::Tensor HostCopies::queue(const at::Tensor& tensor) {
  const at::TensorOptions options =
      at::TensorOptions(tensor.scalar_type()).device(at::kCPU).pinned_memory(true);
  at::Tensor copy = at::empty(tensor.sizes(), options);
  copy.copy_(tensor, /*non_blocking=*/true);
  if (std::ranges::find(devices_, tensor.device()) == devices_.end())
    devices_.push_back(tensor.device());
  return copy;
}

void HostCopies::wait() {
  for (const c10::Device device : devices_) synchronize(current_stream(device));
  devices_.clear();
}

}  // namespace brigade::device
