#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/reduction_tree.h"
#include "brigade/distribute/optimizer/gradient_parts.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::distribute {

/// Adds the gradients of replicas that compute one after another on one device as soon as possible,
/// so that a device with k logical replicas never keeps more than ceil(log2 k) + 2 sets of
/// gradients, instead of k. It adds in the order of the reduction tree (`comm::ReductionTree`), so
/// the total has the same bits wherever the rest is added. Gradients are large, and adding them is
/// limited by memory bandwidth: so it waits until there would be too many sets, and then adds all
/// that can be added in one pass. (In a pipeline, stages continue meanwhile, and more sets arrive.)
/// What is left at the end is added where it is read, block by block.
///
/// Gradients that are not computed (`variables::DeferredGradient`) are kept in that form as long as
/// they take less memory than their sum. Their sum is computed in one pass, at the latest when the
/// last replica of the device has its gradients, with the bits of computed gradients.
///
/// The replica of a device that computes last may add its gradients one by one during its backward
/// (`is_last`, `add_one`), so that the device's sums can be sent while it runs.
///
/// Thread-safety: each replica from its own thread.
class SubtreeSums {
 public:
  /// `slots`: [replica of this process], the device of each; see `StrategyParts::slots`. Replica
  /// `range.first + r` of all is leaf number `range.first + r` of the tree.
  SubtreeSums(std::shared_ptr<comm::LocalGroup> group, ReplicaRange range,
              const std::vector<int>& slots);

  /// Takes replica `replica`'s gradients, waits for the other replicas of this process, and returns
  /// what is left to add: of each subtree that was added, one replica gets the sum, and the others
  /// undefined tensors. Collective over the replicas of this process.
  ///
  /// Sums are made in place in tensors that nobody else refers to, so pass gradients by moving
  /// them. An undefined gradient counts as zero. Gradients of half precision, which are added in
  /// float32 and rounded once, and gradients of rows are left to the caller: they are returned.
  std::vector<at::Tensor> add(int replica, ReplicaGradients gradients);
  /// The same for gradients that are all computed.
  std::vector<at::Tensor> add(int replica, std::vector<at::Tensor> gradients);

  /// Whether replica `replica` shares its device, so that deferred gradients are added to those of
  /// others. They must be contiguous when they are computed.
  bool shares_device(int replica) const;
  /// Whether the replicas of each device are one subtree, whose sums `add_one` can complete.
  bool devices_are_subtrees() const;
  /// `replica` begins a backward pass. Discards what `add_one` added in a pass that failed.
  void begin(int replica);
  /// Whether the other replicas of `replica`'s device wait in `add`, with gradients that can be
  /// added early. Then `replica` is the last one of this step, and may call `add_one` until it
  /// calls `add`. Only if `devices_are_subtrees`.
  bool is_last(int replica) const;
  /// Adds one gradient of the last replica to those of the others, and returns the sum of the
  /// device's replicas; undefined if `add` must add it. `gradient` does not change, and its
  /// position in `add`'s gradients then has no effect.
  at::Tensor add_one(int replica, std::size_t variable, const variables::GradientPart& gradient);

 private:
  struct Device {
    std::mutex mutex;                        // guards the rest but `block`
    std::vector<ReplicaGradients*> waiting;  // [leaf of the block]: of a replica in `add`; or null
    // The nodes whose leaves wait and are added, in order. A sum is in the list of its node's first
    // leaf, and the others are undefined; deferred gradients stay in the lists of their leaves.
    std::vector<comm::LeafRange> sets;
    std::optional<comm::LeafRange> adding;  // one of them: its sum is made now, without the lock
    comm::LeafRange block;                  // its replicas

    ReplicaGradients*& list(int leaf) {
      return waiting[static_cast<std::size_t>(leaf - block.begin)];
    }
    const ReplicaGradients* list(int leaf) const {
      return waiting[static_cast<std::size_t>(leaf - block.begin)];
    }
  };

  static int leaves_in(const Device& device);
  static std::vector<variables::GradientPart> take(Device& device, comm::LeafRange node,
                                                   std::size_t variable);
  static void add_variable(Device& device, comm::LeafRange node, std::size_t variable);
  static void add_variables(Device& device, comm::LeafRange node,
                            std::unique_lock<std::mutex>& lock);
  static bool are_small(const Device& device, comm::LeafRange node, std::size_t variable);
  static void add_complete(Device& device, comm::LeafRange node,
                           std::unique_lock<std::mutex>& lock);
  void add_deferred(Device& device) const;
  void wait_with(Device& device, int leaf, ReplicaGradients& gradients) const;
  static void forget(Device& device, int leaf);
  int leaf_of(int replica) const { return range_.first + replica; }
  Device& device_of(int replica) const { return *device_of_[static_cast<std::size_t>(replica)]; }

  const std::shared_ptr<comm::LocalGroup> group_;
  const ReplicaRange range_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> device_of_;        // [replica]
  std::vector<std::vector<bool>> added_;  // [replica][variable]: by `add_one`; for its thread
};

/// Notifies `listener` of the sums of a device's replicas, as its last replica completes them.
///
/// Thread-safety: as `GradientReadyListener`.
class SubtreeReadyListener final : public GradientReadyListener {
 public:
  /// Both outlive this.
  SubtreeReadyListener(SubtreeSums& sums, GradientReadyListener& listener)
      : sums_(sums), listener_(listener) {}

  bool is_enabled() const override { return listener_.is_enabled(); }
  void begin(int replica) override { listener_.begin(replica); }
  void ready(int replica, std::size_t variable, const at::Tensor& gradient) override;
  /// The same for a gradient that is not computed.
  void ready(int replica, std::size_t variable, const variables::DeferredGradientPtr& gradient);
  void cancel(int replica) noexcept override { listener_.cancel(replica); }

 private:
  void ready_part(int replica, std::size_t variable, const variables::GradientPart& gradient);

  SubtreeSums& sums_;
  GradientReadyListener& listener_;
};

}  // namespace brigade::distribute
