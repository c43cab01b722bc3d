#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/nccl/stream_fence.h"

namespace brigade::distribute {

/// Replica 0's thread works with every replica's tensors while the others wait: what a controller
/// does. As `ReplicaContext::merge_call`, but with tensors, and in order with the replicas' streams
/// on GPUs.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class CrossReplicaCall {
 public:
  /// The replicas' devices, and others on which the work happens.
  CrossReplicaCall(std::shared_ptr<comm::LocalGroup> group, std::vector<c10::Device> replicas,
                   std::vector<c10::Device> others);

  /// Shows `tensors`, waits for all replicas, calls `work` in replica 0 (it may read `shown`), and
  /// returns when that is done. What `work` throws is thrown in every replica.
  void run(int replica, comm::CollectiveCall call, std::span<const at::Tensor> tensors,
           const std::function<void()>& work);
  /// What replica `replica` shows, inside of `work`.
  std::span<const at::Tensor> shown(int replica) const { return group_->published(replica); }

 private:
  const std::shared_ptr<comm::LocalGroup> group_;
  const std::vector<c10::Device> replicas_;  // [replica]
  std::vector<c10::Device> devices_;         // all, each once
  std::vector<comm::StreamFence> came_;      // [replica], written by it before the call
  std::vector<comm::StreamFence> done_;      // as devices_, written by replica 0 in the call
  std::exception_ptr failure_;               // likewise
};

}  // namespace brigade::distribute
