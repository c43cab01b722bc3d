#pragma once

#include <cstdint>
#include <optional>

#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/input/labeled_example.h"
#include "brigade/io/state_tree.h"

/// How `fit` walks over its data; for the sources of `Model` only.
namespace brigade::train::internal {

/// A walk over a dataset that can say whether there is another batch, and whose saved position is
/// behind the last batch that `next` returned. Looks a batch ahead only where the dataset does not
/// know its size.
///
/// Thread-safety: one thread.
class EpochIterator {
 public:
  using Batch = distribute::PerReplica<input::LabeledBatch>;

  explicit EpochIterator(const distribute::DistributedDataset<input::LabeledBatch>& data);

  /// Whether this pass has another batch.
  bool has_next();
  std::optional<Batch> next();
  /// The batch that `next` will return. Throws kInvalidArgument if the dataset is empty.
  const Batch& peek();
  void start_next_epoch();
  /// Batches in a pass, if it is known and not endless.
  std::optional<std::int64_t> batches() const;

  io::StateTree save() const;
  void restore(const io::StateTree& state);

 private:
  void look_ahead();

  std::int64_t cardinality_;
  distribute::DistributedIterator<input::LabeledBatch> iterator_;
  std::int64_t drawn_ = 0;  // in this pass, by `next`
  struct Ahead {
    std::optional<Batch> batch;  // nothing: the pass is over
    io::StateTree before;        // where the iterator stood
  };
  std::optional<Ahead> ahead_;
};

}  // namespace brigade::train::internal
