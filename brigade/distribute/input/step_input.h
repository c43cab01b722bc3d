#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/input/distributed_input.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Reads the input of a strategy, step by step: the implementation of `DistributedIterator`, which
/// says what it guarantees, for batches of any type.
///
/// It takes the steps that its `StepReader` reads, one after another or ahead, on a separate thread,
/// if the input asks for that (with another thread for each further device); agrees with the other
/// workers on each step; and knows its position. The thread starts with the first `next`, and stops
/// at the end of the data, in `restore`, in `start_next_epoch` and in the destructor.
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
