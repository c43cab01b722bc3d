#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/reduction_tree.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// Adds the gradients of replicas that compute one after another on one device while they come, so
/// that a device with k logical replicas never keeps more than ceil(log2 k) + 2 sets of gradients,
/// instead of k. It adds what the reduction tree adds (`comm::ReductionTree`), in its order:
/// whoever adds the rest gets the same bits. Gradients are large, and adding them is bound by
/// memory: so it waits until there would be too many sets, and then adds all that can be added in
/// one pass. What is left at the end is added by whoever reads it, block by block.
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
  std::vector<at::Tensor> add(int replica, std::vector<at::Tensor> gradients);

  /// Whether the replicas of each device are one subtree, whose sums `add_one` can complete.
  bool devices_are_subtrees() const;
  /// `replica` begins a backward pass. What `add_one` added in a pass that failed is forgotten.
  void begin(int replica);
  /// Whether the other replicas of `replica`'s device wait in `add`, with gradients that can be
  /// added early. Then `replica` is the last one of this step, and may call `add_one` until it
  /// calls `add`. Only if `devices_are_subtrees`.
  bool is_last(int replica) const;
  /// Adds one gradient of the last replica to those of the others, and returns the sum of the
  /// device's replicas; undefined if `add` must add it. `gradient` does not change, and its
  /// position in `add`'s gradients then has no effect.
  at::Tensor add_one(int replica, std::size_t variable, const at::Tensor& gradient);

 private:
  /// A sum that has not been added to another yet: in the list of the replica that waits with it.
  struct Partial {
    comm::LeafRange node;
    std::vector<at::Tensor>* values = nullptr;
  };
  struct Device {
    std::mutex mutex;               // guards the rest but `block`
    std::vector<Partial> partials;  // of replicas that wait, in the order of the leaves
    comm::LeafRange block;          // its replicas
  };

  static int leaves_in(const Device& device);
  static void insert(std::vector<Partial>& partials, const Partial& partial);
  static std::vector<at::Tensor> sums_of(std::span<const Partial> partials, comm::LeafRange node,
                                         std::size_t first, std::size_t last);
  static void add_complete(Device& device, comm::LeafRange node);
  void wait_with(Device& device, const Partial& partial) const;
  static void forget(Device& device, const std::vector<at::Tensor>* values);

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
  void cancel(int replica) noexcept override { listener_.cancel(replica); }

 private:
  SubtreeSums& sums_;
  GradientReadyListener& listener_;
};

}  // namespace brigade::distribute
