#include "brigade/input/to_device.h"

namespace brigade::input {

at::Tensor to_device(const at::Tensor& batch, c10::Device device) {
  return batch.to(device, /*non_blocking=*/true);
}

LabeledBatch to_device(const LabeledBatch& batch, c10::Device device) {
  return {.features = to_device(batch.features, device), .labels = to_device(batch.labels, device)};
}

}  // namespace brigade::input
