#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/distribute/input/workers.h"

namespace brigade::distribute {

/// How the workers of a job share out one dataset (TensorFlow: AutoShardPolicy).
enum class AutoShardPolicy {
  /// kFile where the dataset has at least one file a worker and none of its transforms counts by
  /// itself in each worker (`take`, `skip`, an endless `repeat`, dropped remainders); else kData,
  /// which the log says once if there are files. So examples are neither lost nor seen twice.
  kAuto,
  /// Every worker reads files of its own (`data::from_files`), each file in one worker: the only
  /// way in which nobody reads what others train on. Batches are the worker's own, cut so that the
  /// workers' shares of a step make one together. Fewer files than workers are an error.
  kFile,
  /// Every worker walks over all batches and takes its replicas' part of each: needs the same data
  /// in the same order everywhere, and reads it in every worker. Steps keep their order then,
  /// whatever they or the dataset chose (`data::Order::kRelaxed`).
  kData,
  /// As kFile, but the dataset says by `shard_hint()` where elements are shared out.
  kHint,
  /// Every worker trains on everything: each example counts once a worker.
  kOff,
};

/// "auto", "file", "data", "hint", "off".
std::string_view to_string(AutoShardPolicy policy);
/// Reads what `to_string` writes. Throws kInvalidArgument, naming the choices.
AutoShardPolicy parse_auto_shard_policy(std::string_view text);

/// Whether the elements of a dataset are global batches, to be cut for the replicas, or one
/// replica's each.
enum class BatchKind { kGlobal, kPerReplica };

/// Where the replicas' shares of a batch are handed out.
enum class DeviceFetch {
  kToReplica,   ///< On the replica's device.
  kStayOnHost,  ///< Where the dataset made them: the step brings over what it needs.
};

/// How often the function of `Strategy::distribute_from_function` is called (TensorFlow:
/// InputReplicationMode).
enum class InputReplication {
  kPerWorker,   ///< Once; the worker's replicas take the dataset's batches in turns.
  kPerReplica,  ///< Once a replica, which then has a pipeline, and an end of data, of its own.
};

/// Where a replica's own pipeline makes its batches.
enum class DatasetPlacement {
  kOnHost,
  /// On the replica's device, which `InputContext::torch_device` names: nothing is copied, and a
  /// batch that lies elsewhere is an error.
  kOnReplica,
};

/// How a strategy's replicas get their input (TensorFlow: tf.distribute.InputOptions, and
/// `auto_shard_policy` of tf.data.Options).
struct InputOptions {
  /// Of datasets of global batches: how the workers share them out.
  AutoShardPolicy auto_shard = AutoShardPolicy::kAuto;
  DeviceFetch fetch = DeviceFetch::kToReplica;
  /// kPerReplica: with `distribute_from_function` only.
  InputReplication replication = InputReplication::kPerWorker;
  /// kOnReplica: with kPerReplica and kStayOnHost only.
  DatasetPlacement placement = DatasetPlacement::kOnHost;
  /// Steps' batches that are cut, copied to the devices and worked on (`map_on_replica`) ahead of
  /// the step that takes them, by a thread of the iterator's own; one more is being made meanwhile.
  /// Costs their memory on each device. 0: `next` does all that. Unset: 1 where a replica is on a
  /// GPU, which computes while the thread copies; 0 on CPUs, where nothing is copied and a thread
  /// would take time from the replicas'. What the steps see is the same.
  std::optional<int> per_replica_buffer_size = std::nullopt;
};

/// Throws kInvalidArgument for options that cannot go together, or not with batches of this kind.
void check_input_options(const InputOptions& options, BatchKind kind);

/// How many steps' batches are made ahead for replicas on these devices.
int batches_ahead(const InputOptions& options, std::span<const c10::Device> devices);

/// Whose part of the input an iterator gives out.
struct WorkerLayout {
  ReplicaRange replicas;
  int num_workers = 1;
  int worker = 0;
  /// Between the workers; null where there is one.
  std::shared_ptr<comm::Communicator> workers = nullptr;
  /// What the other workers know of this one's steps; null where there is one.
  std::shared_ptr<comm::StepProgress> progress = nullptr;
};

/// The place of the only worker, of `replicas` replicas; with several workers `layout` as it is.
WorkerLayout with_replicas(WorkerLayout layout, int replicas);

}  // namespace brigade::distribute
