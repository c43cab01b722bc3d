#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

#include "brigade/input/example.h"

namespace brigade::input {

/// The batch on `device`; unchanged if it lies there already. Copies to CUDA do not block the host
/// where the batch is in pinned memory. Overload for a batch type of your own; lists without
/// tensors stay where they are.
at::Tensor to_device(const at::Tensor& batch, c10::Device device);
LabeledBatch to_device(const LabeledBatch& batch, c10::Device device);
template <class T>
std::vector<T> to_device(const std::vector<T>& batch, c10::Device) {
  return batch;
}

}  // namespace brigade::input
