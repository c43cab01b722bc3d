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

/// How the place in the data is saved and gone back to (see data::Iterator). Both are empty where
/// the data cannot say.
///
/// Thread-safety: that of the data.
struct DataPosition {
  std::function<io::StateTree()> save = {};
  std::function<void(const io::StateTree&)> restore = {};
  explicit operator bool() const { return save && restore; }
};

/// The batches of a training, cut for its replicas, one after the other. The one in front stays
/// until it was used, so that the pass that makes the variables may see it first, and a step that
/// failed may have it again.
///
/// Thread-safety: one thread.
template <class B>
class ReplicaBatchQueue {
 public:
  using ReplicaBatches = distribute::PerReplica<B>;

  /// `next` gives the next batch at each call, nothing at the end; `position` is where it stands.
  explicit ReplicaBatchQueue(std::function<std::optional<ReplicaBatches>()> next, DataPosition position = {})
      : next_(std::move(next)), position_(std::move(position)) {}

  /// The batch in front; null at the end of the data.
  const ReplicaBatches* front() {
    if (front_) return &*front_;
    if (position_) before_ = position_.save();
    front_ = next_();
    return front_ ? &*front_ : nullptr;
  }
  void pop() { front_.reset(); }

  /// The first replica's share of it. Throws kOutOfRange at the end.
  const B& first_replica_batch() {
    if (front() == nullptr)
      throw Error(ErrorCode::kOutOfRange, "The training data has no batch at all.");
    return (*front_)[0];
  }

  bool knows_position() const { return static_cast<bool>(position_); }
  /// Where the batch in front is the next one. Throws kFailedPrecondition if the data cannot say.
  io::StateTree save() const {
    check_state(knows_position(), "This data cannot say where it stands.");
    return front_ ? before_ : position_.save();
  }
  void restore(const io::StateTree& state) {
    check_state(knows_position(), "This data cannot be set to a place.");
    position_.restore(state);
    front_.reset();
  }

 private:
  std::function<std::optional<ReplicaBatches>()> next_;
  DataPosition position_;
  std::optional<ReplicaBatches> front_;
  io::StateTree before_;  // where the data stood before the batch in front
};

/// Over one walk through a dataset.
template <class B>
std::shared_ptr<ReplicaBatchQueue<B>> make_replica_batch_queue(const distribute::DistributedDataset<B>& dataset) {
  auto iterator = std::make_shared<distribute::DistributedIterator<B>>(dataset.iterator());
  return std::make_shared<ReplicaBatchQueue<B>>(
      [iterator] { return iterator->next(); },
      DataPosition{.save = [iterator] { return iterator->save(); },
                   .restore = [iterator](const io::StateTree& state) { iterator->restore(state); }});
}

}  // namespace brigade::slim
