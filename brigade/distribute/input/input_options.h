#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// How the workers of a job divide one dataset among themselves (TensorFlow: AutoShardPolicy).
///
/// Workers that share no collectives (`StrategyParts::worker`) do not split batches between them:
/// with kFile and kHint each takes the batches of its own shard, with kData every N-th batch of N
/// workers, with kOff all batches.
enum class AutoShardPolicy {
  /// kFile if the dataset has at least one file per worker and no transform that counts elements
  /// (`take`, `skip`, an endless `repeat`, dropped remainders), which each worker would do
  /// separately; otherwise kData, which is logged once if the dataset has files. No example is lost
  /// or read twice.
  kAuto,
  /// Every worker reads its own files (`data::from_files`), and each file is read by one worker:
  /// the only policy under which no worker reads data that another trains on. Each worker splits
  /// its own batches so that the pieces of all workers in a step make up one global batch. Fewer
  /// files than workers are an error.
  kFile,
  /// Every worker iterates over all batches and takes its replicas' part of each. Needs the same
  /// data in the same order in every worker, and reads it in every worker. Transforms then keep
  /// their order, even where they or the dataset chose `data::Order::kRelaxed`.
  kData,
  /// As kFile, but the dataset is sharded at its `shard_hint()`.
  kHint,
  /// Every worker trains on all data: each example is used once per worker. In workers without
  /// collectives a shuffle without a seed has another order in each.
  kOff,
};

/// "auto", "file", "data", "hint", "off".
std::string_view to_string(AutoShardPolicy policy);
/// Reads what `to_string` writes. Throws kInvalidArgument, naming the choices.
AutoShardPolicy parse_auto_shard_policy(std::string_view text);

/// Whether the elements of a dataset are global batches, which are split among the replicas, or
/// per-replica batches.
enum class BatchKind { kGlobal, kPerReplica };

/// Where the per-replica batches are when an iterator returns them.
enum class DeviceFetch {
  kToReplica,   ///< On the replica's device.
  kStayOnHost,  ///< Where the dataset made them: the step copies what it needs.
};

/// How often the function of `Strategy::distribute_from_function` is called (TensorFlow:
/// InputReplicationMode).
enum class InputReplication {
  kPerWorker,   ///< Once per worker; its replicas take the dataset's batches in rotation.
  kPerReplica,  ///< Once per replica: each has its own pipeline and its own end of data.
};

/// Where the pipeline of a replica makes its batches.
enum class DatasetPlacement {
  kOnHost,
  /// On the replica's device, which `InputContext::torch_device` names. Nothing is copied; a batch
  /// on another device is an error.
  kOnReplica,
};

/// How a strategy's replicas get their input (TensorFlow: tf.distribute.InputOptions, and
/// `auto_shard_policy` of tf.data.Options).
struct InputOptions {
  /// For datasets of global batches: how the workers divide them.
  AutoShardPolicy auto_shard = AutoShardPolicy::kAuto;
  /// Whether batches are copied to the replicas' devices.
  DeviceFetch fetch = DeviceFetch::kToReplica;
  /// kPerReplica is allowed only with `distribute_from_function`.
  InputReplication replication = InputReplication::kPerWorker;
  /// kOnReplica is allowed only with kPerReplica and kStayOnHost.
  DatasetPlacement placement = DatasetPlacement::kOnHost;
  /// For how many steps a thread of the iterator prefetches batches: it splits them, copies them to
  /// the devices and calls the function of `map_on_replica`. One more batch is in progress. Costs
  /// the memory of these batches on each device. 0: `next` does this work itself. Unset: 1 if a
  /// replica is on a GPU, which computes while the thread copies; 0 on CPUs, where nothing is
  /// copied and the thread would compete with the replicas. The steps get the same batches in any
  /// case.
  std::optional<int> per_replica_buffer_size = std::nullopt;
};

/// Tells a function that makes an input pipeline which pipeline of the job it makes (TensorFlow:
/// tf.distribute.InputContext).
struct InputContext {
  int num_input_pipelines = 1;   ///< one for each worker, or for each replica
  int input_pipeline_id = 0;     ///< the index of this pipeline
  int num_replicas_in_sync = 1;  ///< over all workers
  /// The device of the replica that this pipeline feeds, as libtorch writes it ("cuda:1"); empty if
  /// the pipeline feeds all replicas of a worker.
  std::string torch_device = {};

  /// The number of examples of each replica in a global batch of `global_batch_size`. Throws
  /// kInvalidArgument if that does not divide evenly, naming the nearest sizes that do.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
};

/// Throws kInvalidArgument for options that contradict each other or do not suit batches of this
/// kind.
void check_input_options(const InputOptions& options, BatchKind kind);
/// The same for an input of a strategy, and kInvalidArgument for options with which its input would
/// depend on the number of workers, if it has logical replicas.
void check_input_options(const InputOptions& options, BatchKind kind, int logical_replicas);

/// For how many steps batches are prefetched for replicas on these devices.
int batches_ahead(const InputOptions& options, std::span<const c10::Device> devices);

/// Which worker of the job, with which replicas, an iterator reads input for.
struct WorkerLayout {
  ReplicaRange replicas;
  int num_workers = 1;
  int worker = 0;
  /// Connects the workers; null if there is only one.
  std::shared_ptr<comm::Communicator> workers = nullptr;
  /// This worker's step progress, which the other workers see; null if there is only one worker.
  std::shared_ptr<comm::StepProgress> progress = nullptr;
  /// Whether the workers share no collectives (`StrategyParts::worker`): nothing is compared or
  /// agreed, each worker's batches are whole global batches for its own replicas, and a worker
  /// whose data ends does not end the others.
  bool is_independent = false;
  /// The number of logical replicas of all workers (`StrategyParts::logical_replicas`); 0: the job
  /// has none. With them, input must not depend on the number of workers.
  int logical_replicas = 0;
  /// Whether batches can make the parts of other workers' replicas (`PerReplica::of_any`), for
  /// audits of gradients.
  bool audits_gradients = false;

  /// The index of this worker's first replica among those of all workers, for random numbers.
  int first_stream() const { return is_independent ? worker * replicas.local : replicas.first; }
};

/// With one worker: its layout, with `replicas` replicas. With several: `layout` unchanged.
WorkerLayout with_replicas(WorkerLayout layout, int replicas);

}  // namespace brigade::distribute
