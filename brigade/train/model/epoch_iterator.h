#pragma once

#include <cstdint>
#include <optional>

#include "brigade/io/state_tree.h"
#include "brigade/train/model/model_batches.h"

/// The iterator of `fit` over its data; for the sources of `Model` only.
namespace brigade::train::internal {

/// An iterator over the epochs of a dataset that knows whether there is another batch. Its saved
/// position is after the last batch that `next` returned. It reads a batch ahead only if the size
/// of the dataset is unknown.
///
/// Thread-safety: one thread.
class EpochIterator {
 public:
  using Batch = ModelBatchIterator::Batch;

  explicit EpochIterator(const DistributedBatches& data);

  /// Whether this epoch has another batch.
  bool has_next();
  std::optional<Batch> next();
  /// The batch that `next` will return. Throws kInvalidArgument if the dataset is empty.
  const Batch& peek();
  void start_next_epoch();
  /// The number of batches in an epoch, if it is known and finite.
  std::optional<std::int64_t> batches() const {
    return cardinality_ < 0 ? std::nullopt : std::optional(cardinality_);
  }

  io::StateTree save() const;
  void restore(const io::StateTree& state);

 private:
  void look_ahead();

  std::int64_t cardinality_;
  ModelBatchIterator iterator_;
  std::int64_t returned_ = 0;  // batches in this epoch, by `next`
  struct Lookahead {
    std::optional<Batch> batch;  // nothing: the epoch is over
    io::StateTree before;        // this worker's position before the batch
  };
  std::optional<Lookahead> lookahead_;
};

}  // namespace brigade::train::internal
