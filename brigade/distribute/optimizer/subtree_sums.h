#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/reduction_tree.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// Adds the gradients of replicas that compute one after another on one device as soon as they are
/// there, so that a device with k logical replicas never keeps more than ceil(log2 k) + 2 sets of
/// gradients, instead of k. It adds what the reduction tree adds (`comm::ReductionTree`), in its
/// order: whoever adds the rest gets the same bits.
///
/// Thread-safety: each replica from its own thread.
class SubtreeSums {
 public:
  /// `slots`: [replica of this process], the device of each; see `StrategyParts::slots`. Replica
  /// `range.first + r` of all is leaf number `range.first + r` of the tree.
  SubtreeSums(std::shared_ptr<comm::LocalGroup> group, ReplicaRange range,
              const std::vector<int>& slots);

  /// Takes replica `replica`'s gradients, waits for the other replicas of this process, and returns
  /// what is left to add: of each of the largest whole subtrees of a device's replicas, one replica
  /// gets the sum, and the others undefined tensors. Collective over the replicas of this process.
  ///
  /// Sums are made in place in tensors that nobody else refers to, so pass gradients by moving
  /// them. An undefined gradient counts as zero. Gradients of half precision, which are added in
  /// float32 and rounded once, and gradients of rows are left to the caller: they are returned.
  std::vector<at::Tensor> add(int replica, std::vector<at::Tensor> gradients);

 private:
  /// A sum that has not been added to another yet: in the list of the replica that waits with it.
  struct Partial {
    comm::LeafRange node;
    std::vector<at::Tensor>* values = nullptr;
  };
  struct Device {
    std::mutex mutex;
    std::vector<Partial> partials;  // guarded by the mutex
  };

  void merge(Device& device, Partial partial) const;
  static void forget(Device& device, const std::vector<at::Tensor>* values);

  const std::shared_ptr<comm::LocalGroup> group_;
  const ReplicaRange range_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> device_of_;  // [replica]
};

}  // namespace brigade::distribute
