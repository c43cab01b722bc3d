#include "brigade/comm/local_group.h"

#include "brigade/base/error.h"

namespace brigade::comm {

namespace {

std::optional<c10::Device> first_device(std::span<const at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) return tensor.device();
  }
  return std::nullopt;
}

}  // namespace

LocalGroup::LocalGroup(int world_size, LocalGroupOptions options)
    : barrier_({.parties = world_size,
                .timeout = options.timeout,
                .spin = options.spin,
                .party_name = "replica"}),
      published_(world_size),
      fences_(world_size),
      devices_(world_size) {}

void LocalGroup::publish(int rank, std::span<const at::Tensor> tensors) {
  published_[rank] = tensors;
  devices_[rank] = first_device(tensors);
  fence_meeting(rank);
}

void LocalGroup::withdraw(int rank) {
  fence_meeting(rank);
}

void LocalGroup::fence_meeting(int rank) {
  const std::optional<c10::Device> device = devices_[rank];
  if (device) fences_[rank].record(*device);
  barrier_.arrive_and_wait(rank);
  if (!device || device->is_cpu()) return;
  for (int other = 0; other < world_size(); ++other) {
    if (other != rank) fences_[other].wait(*device);
  }
}

}  // namespace brigade::comm
