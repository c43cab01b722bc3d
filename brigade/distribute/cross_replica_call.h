#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/device/stream.h"

namespace brigade::distribute {

/// Calls a function in replica 0's thread that may use every replica's tensors, while the other
/// replicas wait. Like `ReplicaContext::merge_call`, but with tensors, and ordered with the
/// replicas' streams on GPUs. Strategies with a controller use it.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class CrossReplicaCall {
 public:
  /// `replicas` are the replicas' devices, `others` further devices that the work uses.
  CrossReplicaCall(std::shared_ptr<comm::LocalGroup> group, std::vector<c10::Device> replicas,
                   std::vector<c10::Device> others);

  /// Publishes `tensors`, waits for all replicas, calls `work` in replica 0, and returns when it is
  /// done. `work` may read `published`. An exception of `work` is thrown in every replica.
  void run(int replica, comm::AnnouncedCall call, std::span<const at::Tensor> tensors,
           const std::function<void()>& work);
  /// The tensors that `replica` has published; valid inside of `work`.
  std::span<const at::Tensor> published(int replica) const { return group_->published(replica); }

 private:
  const std::shared_ptr<comm::LocalGroup> group_;
  const std::vector<c10::Device> replicas_;   // [replica]
  std::vector<c10::Device> devices_;          // all, each once
  std::vector<device::StreamFence> arrived_;  // [replica], written by the replica before the call
  std::vector<device::StreamFence> done_;     // like devices_, written by replica 0 in the call
  std::exception_ptr failure_;                // likewise
};

}  // namespace brigade::distribute
