#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/comm/cross_device_ops.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// Whether gradients are one replica's own, or already the sum over all replicas.
enum class GradientState { kLocal, kAggregated };

/// How a step ended in this process.
enum class StepOutcome { kDone, kFailed };

class GradientReadyListener;

/// How gradients are reduced and which thread updates the parameters: the part of a strategy that
/// turns the replicas' gradients into new parameters. An undefined gradient counts as zero if
/// another replica has one. If no replica has one, the variable, its slots and its step do not
/// change.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class GradientSynchronizer {
 public:
  virtual ~GradientSynchronizer() = default;

  /// Updates the parameters with the sum of the replicas' gradients (kLocal), or with `gradients`
  /// themselves, which must then be equal in every replica (kAggregated). Gradients are contiguous,
  /// in the order of `OptimizerState::variables`.
  virtual void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) = 0;

  /// Returns the sums of all replicas' gradients, in every replica.
  virtual std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) = 0;

  /// The communicator of the processes whose gradients are reduced; null for a single process.
  virtual comm::ProcessCommunicator* workers() const { return nullptr; }

  /// The listener to notify of gradients during backward; null if this synchronizer does not use
  /// it.
  virtual GradientReadyListener* ready_listener() { return nullptr; }

  /// Called after every run, when all replicas have returned. Clears what a failed step has left.
  /// `replicas` is the replicas' own outcome. Returns kFailed also if only the gradients of the
  /// step were not applied.
  virtual StepOutcome end_step(StepOutcome replicas) { return replicas; }
};

/// For replicas that share the parameters' memory: between two barriers each replica adds the
/// gradients of its shard of the elements, in rank order, and updates that shard. Nothing is
/// copied, and each of R replicas does 1/R of the update. Used by Mirrored on CPU.
std::unique_ptr<GradientSynchronizer> make_sharded_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state);

/// For replicas that each have their own parameters: gradients are all-reduced, and each replica
/// updates all of its parameters. Used by Mirrored on GPUs, and by any strategy of one replica,
/// where nothing is sent. `workers` is the communicator of the processes if there are several; then
/// `communicators` connect the replicas of all of them. `optimizer` is the optimizer's number among
/// the strategy's, which identifies its collectives between processes.
std::unique_ptr<GradientSynchronizer> make_replica_synchronizer(
    std::vector<comm::Communicator*> communicators, std::shared_ptr<optim::OptimizerState> state,
    comm::ProcessCommunicator* workers = nullptr, int optimizer = 0);

/// Which threads add gradients and update variables on a controller.
enum class ControllerWork {
  kSharded,      ///< all replicas' threads, 1/R of the elements each: if the controller is a CPU
  kFirstReplica  ///< replica 0's thread: if it is a GPU, which gets its work from one stream
};

/// For variables on a controller: all replicas' gradients are copied to its device, added there in
/// rank order (or with `ops`, if given), and applied to the variables; then replicas that read a
/// copy refresh it. Used by central storage and towers.
std::unique_ptr<GradientSynchronizer> make_controller_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops,
    std::optional<ControllerWork> work = std::nullopt);

/// Adds the replicas' gradients with `ops`, in the cross-replica context on replica 0's thread, and
/// updates with `inner`. For strategies whose options name `CrossDeviceOps`.
std::unique_ptr<GradientSynchronizer> make_reducing_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops, std::unique_ptr<GradientSynchronizer> inner);

/// For the processes of a cluster: the gradients of this process's replicas are added into flat
/// buckets (`GradientBuckets`), which are reduced over the processes in rank order, and every
/// process updates its own variables with the sums. Used by MultiWorkerMirrored on CPU. `optimizer`
/// is the optimizer's number among the strategy's, which identifies its collectives between
/// processes.
std::unique_ptr<GradientSynchronizer> make_worker_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const WorkerGroup> workers, int optimizer);

/// Updates every replica's parameters with `sums`, in the cross-replica context, on one thread.
/// `sums` are in the order of `OptimizerState::variables`; variables without a sum do not change.
void apply_everywhere(optim::OptimizerState& state, std::span<const at::Tensor> sums);

}  // namespace brigade::distribute
