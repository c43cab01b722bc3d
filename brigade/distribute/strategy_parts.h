#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/device/captured_graph.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/coordination.h"
#include "brigade/distribute/logical_replicas.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/replica_runner.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/variables/variable_storage.h"

namespace brigade::distribute {

/// One of several workers that train the same variables, each on its own data, and exchange nothing
/// with one another: with parameter servers. Random streams and input differ by worker, initial
/// weights do not; reductions are over a worker's own replicas, and replicas are counted in each
/// worker. Workers with equal numbers of replicas have different random streams.
struct WorkerIndex {
  int index = 0;  ///< 0: the chief, if it trains
  int count = 1;
};

/// The parameter servers of a strategy, which keep the variables of its optimizers.
struct ServerLayout {
  int count = 0;  ///< 0: the variables are in this process
  /// How many workers' gradients make an update, if all workers wait for it; 0: none waits for the
  /// others' gradients.
  int replicas_to_aggregate = 0;
};

/// Makes the communicators of this process's replicas, on these devices, among those of all
/// processes; `host` are theirs over the host. As `comm::make_nccl_process_communicators`.
using CardCommunicatorFactory = std::function<std::vector<std::unique_ptr<comm::Communicator>>(
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<comm::Communicator>> host,
    const comm::CommunicationOptions& options)>;

/// The choices that define a strategy: which devices run replicas, where variables live, how
/// gradients are reduced and who updates the variables. The defaults are those of a strategy on one
/// device. A strategy of your own derives from `Strategy` and gives it its parts, of which each may
/// be built in or your own:
///
///   class MyStrategy : public Strategy {
///    public:
///     MyStrategy() : Strategy({.name = "mine",
///                              .devices = device::available_gpus(),
///                              .storage = std::make_shared<MyStorageFactory>(),
///                              .synchronizer = make_my_synchronizer}) {}
///   };
struct StrategyParts {
  /// The name of the strategy in messages.
  std::string name;
  /// The devices that run replicas: one replica on each.
  std::vector<device::Device> devices;
  /// [replica]: replicas with the same number share a device and compute on it one after another,
  /// as logical replicas do; empty: all compute at the same time.
  std::vector<int> slots = {};
  /// Which replicas compute at a time. Null: one of those with the same number in `slots`.
  std::shared_ptr<concurrency::ExecutionSlots> execution = nullptr;
  /// If replicas are the micro-batches of a pipeline, how they pass through its stages.
  std::shared_ptr<comm::StagePasses> stages = nullptr;
  /// How many logical replicas all processes have, if the job asked for a number; otherwise 0. Jobs
  /// with the same number resume one another's checkpoints with the same bits.
  int logical_replicas = 0;
  /// Every N-th step another worker computes one replica's gradients again (`GradientAudit`); 0:
  /// none. With `workers` whose replicas compute the same bits.
  int audit_every = 0;
  /// Where trainable variables live. Not null.
  std::shared_ptr<const variables::StorageFactory> storage =
      variables::make_flat_storage_factory(variables::StorageSharing::kOneCopyEach);
  /// How gradients are reduced and who updates the variables.
  SynchronizerFactory synchronizer = make_replica_synchronizer;
  /// How replicas run.
  ReplicaRunnerFactory runner = make_thread_runner;
  /// Connects the replicas of several processes by their GPUs. Null:
  /// `comm::make_nccl_process_communicators`. Tests pass their own.
  CardCommunicatorFactory card_communicators = nullptr;
  /// What `Strategy::compile` captures the steps of one GPU with. Tests pass their own.
  device::GraphFactory graph = device::make_captured_graph;
  /// The seed of all randomness: initial weights, dropout, shuffles without an explicit seed.
  std::uint64_t seed = 0;
  /// Devices that device scopes may name besides those of the replicas: of a pipeline's stages.
  std::vector<device::Device> named_devices = {};
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
  /// A collective fails, naming the replica, if a replica does not join it within this time.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long waiting replicas poll before they sleep. Unset: `spin_duration(devices)`.
  std::optional<std::chrono::microseconds> spin = std::nullopt;
  /// The processes that train together, including this one; null: only this one.
  std::shared_ptr<const WorkerGroup> workers = nullptr;
  /// Those of them that run all replicas, each its own, including this one: over them values are
  /// reduced and input is divided. Unset: all of `workers`. Null: this process runs all replicas,
  /// as do the workers of one pipeline.
  std::optional<std::shared_ptr<const WorkerGroup>> replica_workers = std::nullopt;
  /// Which of several workers this process is, if they share no collectives. Not with `workers`.
  WorkerIndex worker = {};
  /// With servers, device scopes choose the task of a variable (`Variable::requested_device`), and
  /// the synchronizer writes the placement log of trainable variables.
  ServerLayout servers = {};
  /// How the chief directs the other workers; null: it does not.
  std::shared_ptr<Coordination> coordination = nullptr;
};

/// The devices with these names; without names every visible GPU, and without a GPU a logical CPU
/// for every core that this process may use. Throws as `device::resolve_devices`.
std::vector<device::Device> choose_devices(const std::vector<std::string>& names,
                                           const device::DiscoveryOptions& discovery);

/// The parts of a strategy that has a copy of the variables on each device; on CPUs, and on logical
/// GPUs of one card, one for all replicas. Throws kInvalidArgument for a mix of CPUs and GPUs.
StrategyParts mirrored_parts(std::string name, const std::vector<device::Device>& devices,
                             const LogicalReplicas& logical = {});

}  // namespace brigade::distribute
