#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/concurrency/thread_pool.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/device_transfer.h"
#include "brigade/distribute/input/distributed_input.h"
#include "brigade/distribute/input/piece_iterator.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// What this worker has for a step, before the workers agree on it.
struct OwnStep {
  std::vector<std::optional<DeviceBatch>> batches;  ///< [replica]; unset where the data ended
  ExampleCounts examples;                           ///< `global` is set only for split batches
  PerReplica<std::any>::OfAny of_any;               ///< set if gradients are audited
  bool is_last = false;                             ///< the data ends after this step
  std::exception_ptr error;                         ///< set instead of `batches` if reading failed
  std::optional<io::StateTree> position;            ///< after it, if the reader saved it

  bool has_data() const;
};

/// Reads this worker's datasets step by step, whole batches or pieces of them, and transfers them
/// to the replicas' devices. Knows nothing of the other workers.
///
/// Thread-safety: one thread at a time; `stats` from any.
class StepReader {
 public:
  /// `input` is as `resolved` returns it. Batches are copied on `streams`; null: on the caller's.
  StepReader(const DistributedInput& input, data::IteratorOptions start,
             const data::StagesOptions& stages, std::shared_ptr<const CopyStreams> streams);

  /// The next step; at the end of the data, and after it, one without batches. Never throws: a
  /// step that cannot be read has an error, and counts as read.
  OwnStep read();
  /// From now on each further device has a thread for its copies, because copies into pinned
  /// memory take the time of one.
  void copy_in_parallel();
  /// An empty batch with the structure of a whole dataset's first, for a worker whose shard is
  /// empty. Without a value if the dataset is empty too.
  std::any empty_batch() const;

  /// The position after the last complete step that was read.
  io::StateTree save() const;
  /// Throws kInvalidArgument, and does not move, if the position is not one of this input.
  void restore(const io::StateTree& state);
  std::uint64_t epoch() const { return iterators_.front().epoch(); }
  void start_next_epoch();
  /// See `StepInput::stats`.
  std::vector<data::StageStats> stats() const;

 private:
  using OwnBatches = std::vector<std::optional<std::any>>;  // [replica]; unset where data ended

  std::size_t replicas() const { return input_.devices.size(); }
  void make_iterators(data::IteratorOptions start, const data::StagesOptions& stages);
  OwnBatches read_split(OwnStep& step);
  OwnBatches read_collected(OwnStep& step);
  std::optional<std::any> next_global_batch();
  std::vector<std::optional<DeviceBatch>> transferred(OwnBatches batches, std::uint64_t step);
  PerReplica<std::any>::OfAny parts_of_any(const std::any& batch) const;
  ReplicaBatchId id_of(std::size_t local, std::uint64_t step) const;
  bool is_between_steps() const { return num_collected_ == 0; }
  void discard_collected();
  bool draws() const { return transfer_->has_function() && input_.function_draws; }
  io::StateTree save_iterators() const;
  void restore_iterators(const io::StateTree& state);
  void restore_each(const io::StateTree& positions);

  const DistributedInput input_;
  std::shared_ptr<const DeviceTransfer> transfer_;           // shared with batches, for audits
  const std::vector<std::vector<std::size_t>> devices_;      // replicas by device
  std::unique_ptr<concurrency::ThreadPool> device_threads_;  // for all but the first; null: none
  std::vector<std::shared_ptr<data::Stages>> stages_;        // [iterator]
  std::vector<PieceIterator> iterators_;                     // one, or one for each replica
  std::uint64_t seed_;
  std::uint64_t step_ = 0;  // steps of this epoch
  io::StateTree before_;    // the iterators' position before the step being collected
  OwnBatches collected_;    // of that step: the first num_collected_ replicas' batches
  std::size_t num_collected_ = 0;
};

}  // namespace brigade::distribute
