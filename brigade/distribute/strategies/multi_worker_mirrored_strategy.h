#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::distribute {

/// Options of MultiWorkerMirroredStrategy. Those that say so must be equal in all workers; others
/// may differ.
struct MultiWorkerMirroredOptions {
  /// The devices that run this process's replicas, one replica on each. Workers may have different
  /// numbers of devices. Empty: every GPU that the process sees; without a GPU, one logical CPU, as
  /// in TensorFlow.
  std::vector<std::string> devices = {};
  /// The number of threads and cores of each replica on CPU. It changes the last bits of results.
  int threads_per_replica = 1;
  /// The number of replicas on each GPU, if `devices` is empty or names more GPUs than exist.
  int logical_gpus_per_card = 1;
  /// Allows more replicas on CPU than cores without a warning; see `device::DiscoveryOptions`.
  bool allow_oversubscription = false;
  /// The number of logical replicas of all workers: batches are split, random numbers drawn, and
  /// gradients added by logical replica, and each device computes several of them one after
  /// another. Results then depend, to the bit, on this number and no longer on how many devices and
  /// workers compute it (on CPUs with the same instructions and threads a replica). 0: one a
  /// device. At least one a device of all workers; must be equal in all workers, as must be
  /// `threads_per_replica`.
  int logical_replicas = 0;
  /// Every N-th step another worker computes the gradients of one logical replica again, and all
  /// workers throw a GradientMismatch that names both hosts if a bit differs: a processor computes
  /// wrong now and then. Which replica and which worker follows from the step number; N times as
  /// many steps as there are replicas audit each once. An audit takes the auditor one replica's
  /// step, for which the others wait, and the memory of one more replica. 0: no audits. Must be
  /// equal in all workers. Needs several workers, `logical_replicas` and CPUs. What an audited
  /// step function may do: see `GradientAudit`.
  int audit_every = 0;
  /// The seed of all randomness of the job; must be equal in all workers.
  std::uint64_t seed = 0;
  /// A wait for a replica of the same process fails, naming the replica, after this time.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How processes exchange tensors.
  comm::CommunicationOptions communication = {};
  /// How long to wait for other workers at the start, when a worker counts as lost, the cluster's
  /// key.
  rpc::JoinOptions join = {};
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training on the devices of several processes, on one machine or many. Every replica
/// of every worker computes the gradients of its part of the global batch; gradients are summed
/// within each process first and then between processes, and all replicas update together. The
/// program is the same as for one device. Use it if one machine is too slow.
///
/// Every worker runs the same program. The strategy finds out in its constructor which worker it is
/// and where the others are: from `TF_CONFIG`, or from the launcher that started the process
/// (`brigade launch`, torchrun, Slurm, Open MPI; see cluster::resolve_cluster). In a cluster of one
/// worker it is a MirroredStrategy. The constructor returns when all workers have joined and agree
/// (on seed and communication). It throws what rpc::join throws, and kFailedPrecondition, naming
/// both workers, if they disagree.
///
/// Variables start with the chief's values. Creating models, running steps, reading metrics and
/// saving are collectives: every worker must do them in the same order. Only the chief writes
/// files. If a worker is lost, all others throw kUnavailable, naming it, within the peer timeout.
/// To continue, make a new strategy and restore the last checkpoint.
///
/// TensorFlow: tf.distribute.MultiWorkerMirroredStrategy, where a missing worker hangs the others.
/// Thread-safety: see Strategy.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Joins the cluster that the environment describes.
  explicit MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options = {});
  /// Joins this cluster.
  explicit MultiWorkerMirroredStrategy(const cluster::ClusterConfig& cluster,
                                       MultiWorkerMirroredOptions options = {});
  /// Uses the workers of a membership that has already been joined.
  explicit MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Membership> membership,
                                       MultiWorkerMirroredOptions options = {});
};

}  // namespace brigade::distribute
