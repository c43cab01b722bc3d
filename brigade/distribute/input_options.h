#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/distribute/workers.h"

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
  /// in the same order everywhere, and reads it in every worker.
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

struct InputOptions {
  AutoShardPolicy auto_shard = AutoShardPolicy::kAuto;
};

/// Whose part of the input an iterator gives out.
struct InputPlace {
  ReplicaRange replicas;
  int num_workers = 1;
  int worker = 0;
  /// Between the workers; null where there is one.
  std::shared_ptr<comm::Communicator> workers = nullptr;
};

/// The place of the only worker, of `replicas` replicas; with several workers `place` as it is.
InputPlace with_replicas(InputPlace place, int replicas);

}  // namespace brigade::distribute
