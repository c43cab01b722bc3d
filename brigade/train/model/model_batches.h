#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "brigade/data/dataset.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/io/state_tree.h"
#include "brigade/train/model/model_batch.h"

/// The batches of `Model`, whichever type the dataset has; for its sources only. A dataset keeps
/// its type, so that its pipeline and its saved positions are those of the program's dataset; each
/// batch is converted when it is read.
namespace brigade::train::internal {

/// An iterator over `DistributedBatches`. Thread-safety: one thread.
class ModelBatchIterator {
 public:
  using Batch = distribute::PerReplica<ModelBatch>;

  ModelBatchIterator(distribute::DistributedIterator<input::LabeledBatch> simple)
      : iterator_(std::move(simple)) {}
  /// `checks`: every batch is checked (`checked`).
  ModelBatchIterator(distribute::DistributedIterator<ModelBatch> general, bool checks)
      : iterator_(std::move(general)), checks_(checks) {}

  std::optional<Batch> next();
  void start_next_epoch();
  /// As `distribute::StepInput`.
  io::StateTree save() const { return save_at(own_position()); }
  void restore(const io::StateTree& state);
  io::StateTree own_position() const;
  io::StateTree save_at(const io::StateTree& own_position) const;

 private:
  std::variant<distribute::DistributedIterator<input::LabeledBatch>,
               distribute::DistributedIterator<ModelBatch>>
      iterator_;
  bool checks_ = false;
};

/// A distributed dataset. Thread-safety: as DistributedDataset.
class DistributedBatches {
 public:
  DistributedBatches(distribute::DistributedDataset<input::LabeledBatch> simple)
      : data_(std::move(simple)) {}
  /// `checks`: the batches are not checked yet (`checked`).
  DistributedBatches(distribute::DistributedDataset<ModelBatch> general, bool checks)
      : data_(std::move(general)), checks_(checks) {}

  std::int64_t cardinality() const;
  /// Over the next epoch.
  ModelBatchIterator iterator() const;

 private:
  std::variant<distribute::DistributedDataset<input::LabeledBatch>,
               distribute::DistributedDataset<ModelBatch>>
      data_;
  bool checks_ = false;
};

/// A dataset of global batches. Thread-safety: a value.
class GlobalBatches {
 public:
  GlobalBatches(data::Dataset<input::LabeledBatch> simple) : data_(std::move(simple)) {}
  GlobalBatches(data::Dataset<ModelBatch> general) : data_(std::move(general)) {}

  std::int64_t cardinality() const;

  /// Reads the first epoch in its order. Thread-safety: one thread.
  class Reader {
   public:
    Reader(const GlobalBatches& batches, std::uint64_t seed);
    std::optional<ModelBatch> next();

   private:
    std::variant<data::Iterator<input::LabeledBatch>, data::Iterator<ModelBatch>> iterator_;
  };
  Reader reader(std::uint64_t seed) const { return {*this, seed}; }

 private:
  std::variant<data::Dataset<input::LabeledBatch>, data::Dataset<ModelBatch>> data_;
};

}  // namespace brigade::train::internal
