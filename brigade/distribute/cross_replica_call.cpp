#include "brigade/distribute/cross_replica_call.h"

#include <algorithm>

namespace brigade::distribute {

CrossReplicaCall::CrossReplicaCall(std::shared_ptr<comm::LocalGroup> group,
                                   std::vector<c10::Device> replicas,
                                   std::vector<c10::Device> others)
    : group_(std::move(group)), replicas_(std::move(replicas)), arrived_(replicas_.size()) {
  others.insert(others.begin(), replicas_.begin(), replicas_.end());
  for (const c10::Device device : others) {
    if (std::find(devices_.begin(), devices_.end(), device) == devices_.end())
      devices_.push_back(device);
  }
  done_.resize(devices_.size());
}

void CrossReplicaCall::run(int replica, comm::AnnouncedCall call,
                           std::span<const at::Tensor> tensors, const std::function<void()>& work) {
  const auto own = static_cast<std::size_t>(replica);
  arrived_[own].record(replicas_[own]);
  group_->exchange(replica, call, tensors, [&] {
    if (replica != 0) return;
    failure_ = nullptr;
    for (const device::StreamFence& arrived : arrived_) {
      for (const c10::Device device : devices_) arrived.wait(device);
    }
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
    for (std::size_t i = 0; i < devices_.size(); ++i) done_[i].record(devices_[i]);
  });
  // On all devices, not only the own: a replica on CPU fetches results on this thread's stream of
  // the device that holds them.
  for (const device::StreamFence& done : done_) {
    for (const c10::Device device : devices_) done.wait(device);
  }
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace brigade::distribute
