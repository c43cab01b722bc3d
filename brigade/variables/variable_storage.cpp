#include "brigade/variables/variable_storage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

namespace brigade::variables {

FlatLayout::FlatLayout(at::ScalarType dtype, std::span<const std::int64_t> sizes) : dtype_(dtype) {
  for (const std::int64_t elements : sizes) {
    offsets_.push_back(size_);
    size_ = next_offset(size_ + elements);
  }
}

std::int64_t FlatLayout::next_offset(std::int64_t end) const {
  const auto step = static_cast<std::int64_t>(64 / c10::elementSize(dtype_));
  return (end + step - 1) / step * step;
}

void VariableStorage::refresh(int replica) const {
  const at::NoGradGuard no_grad;
  if (is_cached(replica)) buffer(replica).copy_(master(replica));
}

namespace {

class FlatStorageFactory final : public StorageFactory {
 public:
  FlatStorageFactory(StorageSharing sharing, Controller controller)
      : sharing_(sharing), controller_(std::move(controller)) {}

  std::shared_ptr<VariableStorage> make(const FlatLayout& layout,
                                        std::span<const c10::Device> devices) const override {
    return std::make_shared<FlatStorage>(layout, devices, sharing_, controller_);
  }
  std::optional<device::Device> controller() const override {
    if (sharing_ != StorageSharing::kController) return std::nullopt;
    return controller_.device;
  }

 private:
  const StorageSharing sharing_;
  const Controller controller_;
};

}  // namespace

FlatStorage::FlatStorage(const FlatLayout& layout, std::span<const c10::Device> devices,
                         StorageSharing sharing, const Controller& controller)
    : VariableStorage(layout, static_cast<int>(devices.size())), sharing_(sharing) {
  const auto buffer_on = [&](c10::Device device) {
    return at::zeros({size()}, at::TensorOptions().dtype(dtype()).device(device));
  };
  if (sharing == StorageSharing::kController) home_ = buffer_on(controller.device.torch_device);
  const std::size_t copies = sharing == StorageSharing::kOneStorage ? 1 : devices.size();
  for (std::size_t i = 0; i < copies; ++i) {
    const bool at_home = sharing == StorageSharing::kController && devices[i] == home_.device() &&
                         controller.caching == Caching::kWhereNeeded;
    buffers_.push_back(at_home ? home_ : buffer_on(devices[i]));
  }
}

const at::Tensor& FlatStorage::buffer(int replica) const {
  return buffers_[sharing_ == StorageSharing::kOneStorage ? 0 : static_cast<std::size_t>(replica)];
}

int FlatStorage::masters() const {
  return sharing_ == StorageSharing::kOneCopyEach ? replicas() : 1;
}

const at::Tensor& FlatStorage::master(int replica) const {
  return sharing_ == StorageSharing::kController ? home_ : buffer(replica);
}

std::shared_ptr<const StorageFactory> make_flat_storage_factory(StorageSharing sharing,
                                                                const Controller& controller) {
  return std::make_shared<const FlatStorageFactory>(sharing, controller);
}

}  // namespace brigade::variables
