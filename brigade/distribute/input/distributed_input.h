#pragma once

#include <c10/core/Device.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/created_state.h"
#include "brigade/distribute/device_transfer.h"
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/batch_ops.h"
#include "brigade/distribute/input/epoch_counter.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/step_times.h"

namespace brigade::distribute {

/// The definition of a strategy's input, from which any number of iterators can be made.
///
/// Thread-safety: a value.
struct DistributedInput {
  BatchOps ops{};
  /// One, or one for each of this process's replicas.
  std::vector<data::NodePtr<std::any>> datasets{};
  std::vector<c10::Device> devices{};  ///< of this process's replicas
  BatchKind kind = BatchKind::kGlobal;
  WorkerLayout layout{};
  /// How the workers divide the dataset: a policy that `choose_auto_shard` returned.
  AutoShardPolicy policy = AutoShardPolicy::kData;
  InputOptions options{};
  ReplicaMapFunction<std::any> function{};
  /// `ReplicaMapOptions::draws` of the function, if there is one.
  bool function_draws = true;
  /// How batches are split into pieces, if not as the policy says.
  PieceSizes piece_sizes{};
  /// Measures the time in `StepInput::next`; null: not measured.
  std::shared_ptr<StepMeter> meter{};
  /// Counts the epochs that the iterators have reached; null: not counted.
  std::shared_ptr<EpochCounter> epochs{};
  /// Where the iterators' positions are registered; null: nowhere.
  std::shared_ptr<CreatedStates> created{};
  /// On which batches are copied ahead of the steps; null: each iterator makes its own.
  std::shared_ptr<const CopyStreams> copy_streams{};

  /// Whether this worker iterates over a shard of the dataset.
  bool has_shard() const {
    return policy == AutoShardPolicy::kFile || policy == AutoShardPolicy::kHint;
  }
  /// Whether each batch is split among all replicas, instead of being one replica's batch.
  bool is_split() const {
    return kind == BatchKind::kGlobal && (layout.is_independent || !has_shard());
  }
  /// Whether this worker takes every N-th batch of N workers, which share no collectives.
  bool takes_every_nth() const {
    return kind == BatchKind::kGlobal && layout.is_independent && policy == AutoShardPolicy::kData;
  }
  /// See `DistributedDataset::cardinality`.
  std::int64_t cardinality() const;
};

/// `input` with its policy and layout resolved. Throws kInvalidArgument if there is no dataset, or
/// if the options do not suit the datasets.
DistributedInput resolved(DistributedInput input);

/// How many cores each of `pipelines` input pipelines may use for its threads. Each replica on a
/// CPU keeps one of the process's `cores`; the rest is divided evenly among the pipelines. Together
/// they always get at least one core, because replicas cannot compute without input.
double cores_for_input(double cores, std::size_t cpu_replicas, std::size_t pipelines);

/// The same as the default tuning of an iterator, used where neither the iterator nor its dataset
/// (`data::Dataset::with_options`) sets a budget. The process's cores are those that it may run on,
/// up to the CPU limit of its container. `root` is a prefix of /proc and /sys, for tests.
data::Tuning input_tuning(std::span<const c10::Device> replicas, std::size_t pipelines,
                          const std::filesystem::path& root = "/");

}  // namespace brigade::distribute
