#include "brigade/variables/flat_storage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

namespace brigade::variables {

FlatStorage::FlatStorage(at::ScalarType dtype, std::span<const std::int64_t> sizes,
                         std::span<const c10::Device> devices, StorageSharing sharing,
                         const Controller& controller)
    : dtype_(dtype), sharing_(sharing), replicas_(static_cast<int>(devices.size())) {
  for (const std::int64_t elements : sizes) {
    offsets_.push_back(size_);
    size_ = next_offset(size_ + elements);
  }
  const auto buffer_on = [&](c10::Device device) {
    return at::zeros({size_}, at::TensorOptions().dtype(dtype).device(device));
  };
  if (sharing == StorageSharing::kController) home_ = buffer_on(controller.device);
  const std::size_t copies = sharing == StorageSharing::kOneStorage ? 1 : devices.size();
  for (std::size_t i = 0; i < copies; ++i) {
    const bool at_home = sharing == StorageSharing::kController && devices[i] == home_.device() &&
                         controller.caching == Caching::kWhereNeeded;
    buffers_.push_back(at_home ? home_ : buffer_on(devices[i]));
  }
}

std::int64_t FlatStorage::next_offset(std::int64_t end) const {
  const auto step = static_cast<std::int64_t>(64 / c10::elementSize(dtype_));
  return (end + step - 1) / step * step;
}

const at::Tensor& FlatStorage::buffer(int replica) const {
  return buffers_[sharing_ == StorageSharing::kOneStorage ? 0 : static_cast<std::size_t>(replica)];
}

int FlatStorage::masters() const {
  return sharing_ == StorageSharing::kOneCopyEach ? replicas_ : 1;
}

const at::Tensor& FlatStorage::master(int replica) const {
  return sharing_ == StorageSharing::kController ? home_ : buffer(replica);
}

bool FlatStorage::is_cached(int replica) const {
  return !buffer(replica).is_same(master(replica));
}

void FlatStorage::refresh(int replica) const {
  const at::NoGradGuard no_grad;
  if (is_cached(replica)) buffer(replica).copy_(master(replica));
}

}  // namespace brigade::variables
