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

struct MultiWorkerMirroredOptions {
  /// This process's replicas, one on each device; workers may have different numbers. Empty: every
  /// GPU that the process sees; without one, one logical CPU, as in TensorFlow.
  std::vector<std::string> devices = {};
  /// Threads, and cores, of each replica on CPU; part of what "the same run" means.
  int threads_per_replica = 1;
  /// Whether replicas on CPU may share cores.
  device::Oversubscription oversubscription = device::Oversubscription::kRefuse;
  /// The root of all randomness of the job; equal in all workers.
  std::uint64_t seed = 0;
  /// A replica that its process's others wait for this long is an error that names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How processes exchange tensors.
  comm::CommunicationOptions communication = {};
  /// How long to wait for the others at the start, when one counts as lost, the cluster's key.
  rpc::JoinOptions join = {};
  /// What happens where a device scope names a device that does not exist, and the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training on the devices of several processes, on one machine or many: every replica
/// of every worker computes the gradients of its share of the global batch, they are added up
/// within each process first and then between processes, and all update together. The program is
/// that of one device; choose it as soon as one machine is too slow.
///
/// Every worker runs the same program. Which it is, and where the others are, it learns when the
/// strategy is made: from `TF_CONFIG`, or from the launcher that started it (`brigade launch`,
/// torchrun, Slurm, Open MPI; see cluster::resolve_cluster). A program in a cluster of one is a
/// MirroredStrategy. The making returns when all have come and agree (on seed and communication);
/// it throws what rpc::join throws, and kFailedPrecondition, naming both, where they disagree.
///
/// First values are the chief's. What several workers must do together is a collective: a
/// program that makes models, runs steps, reads metrics or saves does so in all of them, in the
/// same order; only the writing of files is the chief's. A worker that is lost is an error in all
/// others, kUnavailable, which names it, within the peer timeout; what trained on goes back to the
/// last checkpoint with a new strategy.
///
/// TensorFlow: tf.distribute.MultiWorkerMirroredStrategy, where a missing worker hangs the others.
/// Thread-safety: see Strategy.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// Joins the cluster that the environment describes.
  explicit MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options = {});
  /// Joins this one.
  explicit MultiWorkerMirroredStrategy(const cluster::ClusterConfig& cluster,
                                       MultiWorkerMirroredOptions options = {});
  /// With those who are there already.
  explicit MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Membership> membership,
                                       MultiWorkerMirroredOptions options = {});
};

}  // namespace brigade::distribute
