#include "brigade/variables/flat_storage.h"

#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

namespace brigade::variables {

FlatStorage::FlatStorage(at::ScalarType dtype, std::span<const std::int64_t> sizes,
                         std::span<const c10::Device> devices, Sharing sharing)
    : dtype_(dtype), sharing_(sharing), replicas_(static_cast<int>(devices.size())) {
  for (const std::int64_t elements : sizes) {
    offsets_.push_back(size_);
    size_ = next_offset(size_ + elements);
  }
  const std::size_t copies = sharing == Sharing::kOneStorage ? 1 : devices.size();
  for (std::size_t i = 0; i < copies; ++i) {
    buffers_.push_back(at::zeros({size_}, at::TensorOptions().dtype(dtype).device(devices[i])));
  }
}

std::int64_t FlatStorage::next_offset(std::int64_t end) const {
  const auto step = static_cast<std::int64_t>(64 / c10::elementSize(dtype_));
  return (end + step - 1) / step * step;
}

const at::Tensor& FlatStorage::buffer(int replica) const {
  return buffers_[sharing_ == Sharing::kOneStorage ? 0 : static_cast<std::size_t>(replica)];
}

}  // namespace brigade::variables
