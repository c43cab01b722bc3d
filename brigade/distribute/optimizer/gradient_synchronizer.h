#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/comm/cross_device_ops.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/distribute/input/workers.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// Whether gradients are one replica's own or already everybody's sum.
enum class GradientState { kLocal, kAggregated };

/// How a step ended in this process.
enum class StepOutcome { kDone, kFailed };

class GradientReadyListener;

/// How gradients meet and who updates: the part of a strategy that turns every replica's gradients
/// into new parameters. A missing (undefined) gradient counts as zero where another replica has
/// one; missing everywhere, the variable, its slots and its step stay as they are.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class GradientSynchronizer {
 public:
  virtual ~GradientSynchronizer() = default;

  /// Updates the parameters with the sum of the replicas' gradients (kLocal), or with `gradients`
  /// as they are, which then must be equal in every replica (kAggregated). In the order of
  /// `OptimizerState::variables`, contiguous.
  virtual void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) = 0;

  /// Every replica's gradients, summed, for every replica.
  virtual std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) = 0;

  /// Between the processes whose gradients meet here; null where this one is alone.
  virtual comm::ProcessCommunicator* workers() const { return nullptr; }

  /// What takes gradients while backward still makes others; null where nothing is gained by it.
  virtual GradientReadyListener* ready_listener() { return nullptr; }

  /// Behind every run, when all replicas have returned: what a step that failed has left is
  /// forgotten. Returns kFailed where its gradients were not applied, also if no replica said so.
  virtual StepOutcome end_step(StepOutcome replicas) { return replicas; }
};

/// For replicas that share the parameters' memory: between two barriers each replica adds up the
/// gradients of its share of the elements, in rank order, and updates that share. Nothing is
/// copied, and no replica does more than 1/R of the update. Mirrored on CPU.
std::unique_ptr<GradientSynchronizer> make_sharded_synchronizer(std::shared_ptr<comm::LocalGroup> group,
                                                    std::shared_ptr<optim::OptimizerState> state);

/// For replicas with parameters of their own: gradients are all-reduced and each replica updates
/// everything it has. Mirrored on GPUs, and any strategy of one replica, where nothing is sent.
/// `workers` are the processes, where there are several; the communicators reach all of them.
/// `optimizer` is its number among the strategy's, by which the processes know its exchanges.
std::unique_ptr<GradientSynchronizer> make_replica_synchronizer(
    std::vector<comm::Communicator*> communicators, std::shared_ptr<optim::OptimizerState> state,
    comm::ProcessCommunicator* workers = nullptr, int optimizer = 0);

/// Who does a controller's work while the replicas wait for it.
enum class ControllerWork {
  kSharded,     ///< their threads, 1/R of the elements each: where the controller is a CPU
  kFirstReplica  ///< replica 0's thread: where it is a GPU, which takes the work from one stream
};

/// For variables that live on a controller: every replica's gradients travel to its device, are
/// added up there in rank order, or by `ops` where given, and update the only home; then replicas
/// that read a copy fetch it anew. Central storage and towers.
std::unique_ptr<GradientSynchronizer> make_controller_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops,
    std::optional<ControllerWork> work = std::nullopt);

/// Has `ops` add up the replicas' gradients, in the cross-replica context on replica 0's thread,
/// and `inner` update with the sums. For strategies that were told how to reduce.
std::unique_ptr<GradientSynchronizer> make_reducing_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops, std::unique_ptr<GradientSynchronizer> inner);

/// For the processes of a cluster: the gradients of this process's replicas are added up into one
/// flat buffer, that is added over the processes in the order of their ranks, and every process
/// updates its own variables with the sums. MultiWorkerMirrored on CPU. `optimizer` is its number
/// among the strategy's, by which the processes know its exchanges.
std::unique_ptr<GradientSynchronizer> make_worker_synchronizer(std::shared_ptr<comm::LocalGroup> group,
                                                     std::shared_ptr<optim::OptimizerState> state,
                                                     std::shared_ptr<const Workers> workers,
                                                     int optimizer);

/// Updates every replica's parameters with `sums`, from outside of the replicas: on one thread, in
/// the order of `OptimizerState::variables`. Undefined ones leave their variables as they are.
void apply_everywhere(optim::OptimizerState& state, std::span<const at::Tensor> sums);

}  // namespace brigade::distribute
