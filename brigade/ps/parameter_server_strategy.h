#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/cluster_spec.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"
#include "brigade/ps/client/parameter_client.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server_placement.h"

namespace brigade::ps {

/// What the chief does beside creating, configuring and saving variables.
enum class ChiefRole {
  kTrains,      ///< it is one of the workers
  kCoordinates  ///< the workers run its functions: of a ClusterCoordinator, or of
                ///< `train::Model::fit`; kAsync only
};

/// Options of ParameterServerStrategy. Those that say so must be equal in all workers.
struct ParameterServerOptions {
  /// The devices that run this worker's replicas. Empty: every GPU that the process sees; without a
  /// GPU, one logical CPU.
  std::vector<std::string> devices = {};
  /// The number of threads and cores of each replica on CPU. It changes the last bits of results.
  int threads_per_replica = 1;
  /// Allows more replicas on CPU than cores without a warning; see `device::DiscoveryOptions`.
  bool allow_oversubscription = false;
  /// The seed of all randomness of the job; must be equal in all workers. It is not compared: with
  /// different seeds workers would differ in the initial values of variables that are not trained.
  std::uint64_t seed = 0;
  /// Must be the same in all tasks. With kCoordinates inputs are divided among the workers without
  /// the chief, and the chief's (an evaluation's) are not divided.
  ChiefRole chief = ChiefRole::kTrains;
  /// How the workers' updates are ordered, and what a worker waits for.
  UpdateMode mode = UpdateMode::kAsync;
  /// kBounded: the steps by which a worker may be ahead of the slowest.
  std::int64_t staleness = 0;
  /// kAsync and kBounded: an update is made with the learning rate divided by its staleness (how
  /// many updates of other workers came after the values that its gradients were computed with), if
  /// that is more than 1. Use it if many workers make asynchronous training unstable (Zhang et al.,
  /// "Staleness-aware Async-SGD for distributed deep learning", 2016). Refused with kSync, whose
  /// updates are never stale.
  bool staleness_aware = false;
  /// kSync: the workers whose gradients a step does not wait for. A step adds the gradients of the
  /// others, each weighted by 1 / (workers - backup_workers), so their batches should be equally
  /// large.
  int backup_workers = 0;
  /// Divides the optimizer's variables into parts, which are placed, updated and stored on the
  /// servers as variables by themselves ("weights/part_0"), so that a large variable is not one
  /// server's alone; must be the same in all workers. The program, and checkpoints, have whole
  /// variables. `variables::fixed_size_partitioner(2)`, or, for large variables only,
  /// `variables::min_max_variable_partitioner({.max_parts = 2, .min_part_bytes = 1 << 20})`. Empty:
  /// none is divided. Variables that the program made in partitions are not divided again.
  variables::Partitioner variable_partitioner = {};
  /// Assigns the optimizer's variables to the servers, apart from those that were made in a device
  /// scope with a task of the job "ps" (`with_device("/job:ps/task:1")`, `replica_device_setter`),
  /// which decides; must be the same in all workers. Another: `greedy_by_bytes`.
  ServerPlacement ps_strategy = device::round_robin_strategy;
  /// A wait for a replica of the same process fails, naming the replica, after this time; with
  /// several replicas also the wait of kSync for the other workers.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a server may be away.
  std::chrono::milliseconds server_timeout = std::chrono::minutes(5);
  /// The key that all processes of the cluster share. Default: `ClusterKey::from_environment`.
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// kBFloat16: gradients are rounded to it before they are sent, which halves what is sent and
  /// what the servers' logs take; the servers widen them before they add or use them. Unset: they
  /// are sent as they are.
  std::optional<at::ScalarType> push_dtype = std::nullopt;
  /// Whether a step waits until its push is on the servers' disks. Otherwise, in kAsync and
  /// kBounded mode, it waits until the push before it is, and the worker keeps a copy of its last
  /// one for a server that is restarted without it. Only if the worker dies, too, before that
  /// server is back is that one lost. With ChiefRole::kCoordinates steps always wait.
  bool wait_for_disk = false;
  /// Whether gradients and values travel in shared memory to and from servers on this host.
  bool shared_memory = true;
  /// Pushes of at least this many bytes are sent while backward computes: each gradient as soon as
  /// it is complete. Servers apply them as others, to the same bits. Only with replicas on the CPU,
  /// by `minimize` without accumulation. Unset: pushes are sent after backward.
  std::optional<std::size_t> overlap_from_bytes = std::size_t{256} << 10;
  /// Ends all waits for servers and other workers, with kCancelled.
  concurrency::CancelToken cancel = {};
  /// Runs while this worker waits for servers, or through them for other workers; for whoever
  /// cancels waits that take too long.
  std::shared_ptr<CallClock> calls = nullptr;
  /// Called by the chief's constructor, with the job's step, if a job is in progress on the
  /// servers, which the chief is going to continue with their values. Throw an exception to refuse
  /// that, where a new job was to begin.
  std::function<void(std::int64_t step)> on_job_in_progress = {};
  /// What happens if a device scope names a device or a server that does not exist: of a server
  /// with kFallBack, `ps_strategy` decides. The placement log has a line for each part of the
  /// optimizer's variables, when the optimizer is made: "weights: (variable): /job:ps/task:1".
  device::PlacementOptions placement = {};
};

/// Training with parameter servers: each worker runs the same program on its own data, pushes its
/// gradients to servers that keep the variables, and pulls their values. Use it if workers differ
/// in speed or come and go, or if updates need not wait for one another;
/// `MultiWorkerMirroredStrategy` is faster where workers are alike.
///
/// A worker's death stops nobody, and its successor joins; a server that is restarted continues
/// with every update that it acknowledged. The chief (`chief:0`, or `worker:0`) initializes and
/// saves.
///
/// The variables of the optimizer live on the servers, and every worker has a copy, which each step
/// updates. Variables that are not trained (batch norm's statistics, metrics) stay in each worker;
/// a checkpoint has the chief's. Reductions (`Strategy::reduce`, metrics) and clipping by the
/// global norm are over a worker's own replicas. The optimizer's `updates` and the global step of
/// sessions count the updates of all workers. The chief's learning rate and parameter groups count;
/// other workers' are not used.
///
/// With kAsync a step ends with the values after the worker's own push. With kSync it ends when the
/// update of all was made, so that all workers have the same values after it, and the bits are
/// those of MultiWorkerMirroredStrategy. Stop training by the global step: a worker that stops
/// earlier than others is missing in their steps.
///
/// A strategy has one optimizer; a second is refused with kUnimplemented.
///
/// TensorFlow: tf.distribute.experimental.ParameterServerStrategy, and between-graph replication
/// with tf.train.replica_device_setter.
///
/// Thread-safety: see Strategy.
class ParameterServerStrategy : public distribute::Strategy {
 public:
  /// Joins the job that the environment describes (`TF_CONFIG`).
  explicit ParameterServerStrategy(ParameterServerOptions options = {});
  /// Throws kInvalidArgument for a cluster without a "ps" job, and for a task that is no worker or
  /// chief, naming what runs there (`Server`).
  explicit ParameterServerStrategy(const cluster::ClusterConfig& cluster,
                                   ParameterServerOptions options = {});
  /// As this task of the cluster: ("worker", 0), as a program's own flags say it.
  ParameterServerStrategy(const cluster::ClusterSpec& cluster, const std::string& job, int task,
                          ParameterServerOptions options = {});
  /// Uses these connections, one for each server: for tests, and for other networks.
  ParameterServerStrategy(const cluster::ClusterConfig& cluster,
                          std::vector<std::unique_ptr<ParameterService>> servers,
                          ParameterServerOptions options = {});

  /// This process's task in the cluster.
  const cluster::ClusterConfig& cluster() const { return cluster_; }
  ChiefRole chief_role() const { return chief_role_; }

 private:
  cluster::ClusterConfig cluster_;
  ChiefRole chief_role_;
};

}  // namespace brigade::ps
