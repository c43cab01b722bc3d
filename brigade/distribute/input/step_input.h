#pragma once

#include <c10/core/Device.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/created_state.h"
#include "brigade/distribute/device_transfer.h"
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/batch_ops.h"
#include "brigade/distribute/input/epoch_counter.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/step_times.h"
#include "brigade/io/state_tree.h"

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

/// Splits a global batch among the replicas of all workers, by `input::split_sizes`. Returns the
/// per-replica batches of this process, on their devices, with the counts of examples.
PerReplica<std::any> split_for_replicas(const BatchOps& ops, const std::any& batch,
                                        const ReplicaRange& replicas,
                                        std::span<const c10::Device> devices);

/// Reads the input of a strategy, step by step: the implementation of `DistributedIterator`, which
/// says what it guarantees, for batches of any type.
///
/// It reads this worker's datasets, whole batches or pieces of them; splits the batches and
/// transfers them to the devices; does so on a separate thread for the next steps, if the input
/// asks for that, with another thread for each further device; agrees with the other workers on
/// each step; and knows its position. The thread starts with the first `next`, and stops at the end
/// of the data, in `restore`, in `start_next_epoch` and in the destructor.
///
/// A batch that fails makes its step fail, and counts as read. Batches of the same step that were
/// read before it are returned with the next step; until then the position stays before them.
///
/// Thread-safety: one thread at a time, outside of replicas; `stats` from any.
class StepInput {
 public:
  /// `input` is as `resolved` returns it. `start` may contain a token that cancels every wait for
  /// data. `stages` says how the stages are measured and tuned; each pipeline has its own.
  StepInput(const DistributedInput& input, const data::IteratorOptions& start,
            const data::StagesOptions& stages = {});
  StepInput(StepInput&&) noexcept;
  StepInput& operator=(StepInput&&) noexcept;
  ~StepInput();

  /// The batches of the next step, with their counts of examples; nullopt at the end.
  std::optional<PerReplica<std::any>> next();
  /// Saves the position after the last global batch that `next` returned, and resumes from it (see
  /// data::Iterator). A refused position changes nothing.
  io::StateTree save() const { return save_at(own_position()); }
  void restore(const io::StateTree& state);
  /// `save` in two parts, for code that may have to save a position after it has moved on:
  /// `own_position` returns this worker's, and sends nothing; `save_at` makes the state of all
  /// workers from theirs, in which it is a collective as `save` is.
  io::StateTree own_position() const;
  io::StateTree save_at(const io::StateTree& own_position) const;
  std::uint64_t epoch() const;
  void start_next_epoch();

  /// Statistics of each stage of this worker's input since the iterator was made, sources first,
  /// for `data::describe` and `data::bottleneck`. All stages if
  /// `DistributedIteratorOptions::stages` asks for kAll, otherwise those that `kAutotune` adjusts.
  /// If each replica has its own pipeline, the pipelines follow one another, with "replica 3: "
  /// before the names. `Strategy::step_times` says how long the replicas waited.
  std::vector<data::StageStats> stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // a pointer: its thread refers to it
};

}  // namespace brigade::distribute
