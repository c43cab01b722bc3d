#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/input/to_device.h"
#include "brigade/io/state_tree.h"

namespace brigade::slim {

/// Functions that save and restore the position in the data (see data::Iterator). Both are empty if
/// the data has no position.
///
/// Thread-safety: as the data.
struct DataPosition {
  std::function<io::StateTree()> save = {};
  std::function<void(const io::StateTree&)> restore = {};
  explicit operator bool() const { return save && restore; }
};

/// A queue of batches, split for the replicas. The front batch stays until `pop`, so that the first
/// pass, which creates the variables, can read it, and a failed step can be retried with it.
///
/// Thread-safety: one thread.
template <class B>
class ReplicaBatchQueue {
 public:
  using ReplicaBatches = distribute::PerReplica<B>;

  /// `next` returns the next batch, or nothing at the end; `position` saves and restores its
  /// position.
  explicit ReplicaBatchQueue(std::function<std::optional<ReplicaBatches>()> next,
                             DataPosition position = {})
      : next_(std::move(next)), position_(std::move(position)) {}

  /// The front batch; null at the end of the data.
  const ReplicaBatches* front() {
    if (front_) return &*front_;
    if (position_) before_ = position_.save();
    front_ = next_();
    return front_ ? &*front_ : nullptr;
  }
  void pop() { front_.reset(); }

  /// The first replica's part of the front batch. Throws kOutOfRange at the end of the data.
  const B& first_replica_batch() {
    if (front() == nullptr)
      throw Error(ErrorCode::kOutOfRange, "The training data is empty: it has no batch.");
    return (*front_)[0];
  }

  bool has_position() const { return static_cast<bool>(position_); }
  /// The position before the front batch. Throws kFailedPrecondition if the data has no position.
  io::StateTree save() const {
    check_state(has_position(), "This data has no position to save.");
    return front_ ? before_ : position_.save();
  }
  void restore(const io::StateTree& state) {
    check_state(has_position(), "This data has no position to restore.");
    position_.restore(state);
    front_.reset();
  }

 private:
  std::function<std::optional<ReplicaBatches>()> next_;
  DataPosition position_;
  std::optional<ReplicaBatches> front_;
  io::StateTree before_;  // the position before the front batch
};

/// A queue over one pass through a dataset.
template <class B>
std::shared_ptr<ReplicaBatchQueue<B>> make_replica_batch_queue(
    const distribute::DistributedDataset<B>& dataset) {
  auto iterator = std::make_shared<distribute::DistributedIterator<B>>(dataset.iterator());
  return std::make_shared<ReplicaBatchQueue<B>>(
      [iterator] { return iterator->next(); },
      DataPosition{
          .save = [iterator] { return iterator->save(); },
          .restore = [iterator](const io::StateTree& state) { iterator->restore(state); }});
}

}  // namespace brigade::slim
