#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/dataset.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/distributed_iterator.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/input/step_input_reader.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/step_meter.h"

namespace brigade::distribute {

/// Options of an iterator over a distributed dataset.
struct DistributedIteratorOptions {
  /// Cancelling it ends every wait for data: `next` then throws kCancelled. Unset: not cancellable.
  std::optional<concurrency::CancelToken> cancel{};
  /// Which stages `DistributedIterator::stats` reports, and the budgets of `kAutotune`; an unset
  /// budget is what the replicas leave free.
  data::StagesOptions stages{};
};

/// A dataset whose batches are split among the replicas of a strategy. Made by
/// `Strategy::distribute`. Each range-for over it is a new epoch: a shuffle in it has another order
/// in each epoch, without a call such as PyTorch's `set_epoch`. Epochs are counted per dataset:
/// copies of this handle, and other distributed datasets that the strategy makes of the same
/// dataset, share one count. TensorFlow: tf.distribute.DistributedDataset.
///
/// Thread-safety: loops in several threads are different epochs.
template <class B>
class DistributedDataset {
 public:
  /// `datasets` holds one dataset, or one for each device. Throws kInvalidArgument if `options` do
  /// not suit the datasets.
  DistributedDataset(std::vector<data::Dataset<B>> datasets, std::vector<c10::Device> devices,
                     std::uint64_t seed, BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     WorkerLayout layout = {}, InputOptions options = {},
                     std::shared_ptr<EpochCounter> epochs = std::make_shared<EpochCounter>())
      : input_{.datasets = std::move(datasets),
               .devices = std::move(devices),
               .kind = kind,
               .layout = std::move(layout),
               .options = options,
               .meter = std::move(meter),
               .epochs = std::move(epochs)},
        seed_(seed) {
    check_input_options(options, kind);
    if (kind == BatchKind::kGlobal)
      input_.policy =
          auto_shard_for(input_.layout, options.auto_shard, input_.datasets.front().sharding());
  }
  DistributedDataset(data::Dataset<B> dataset, std::vector<c10::Device> devices, std::uint64_t seed,
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     WorkerLayout layout = {}, InputOptions options = {},
                     std::shared_ptr<EpochCounter> epochs = std::make_shared<EpochCounter>())
      : DistributedDataset(std::vector{std::move(dataset)}, std::move(devices), seed, kind,
                           std::move(meter), std::move(layout), options, std::move(epochs)) {}

  /// This dataset with `function` applied to each per-replica batch, on the replica's device. If
  /// batches are prefetched (`InputOptions::per_replica_buffer_size`), the function runs while the
  /// previous step computes, otherwise in `next`. Use it for random image augmentation on GPUs,
  /// where it costs the host nothing. The function must keep the number of examples. If this
  /// dataset already has a function, `function` is applied to its result. The returned dataset
  /// shares the epoch count of this one.
  DistributedDataset map_on_replica(ReplicaMapFunction<B> function) const {
    check_argument(static_cast<bool>(function), "map_on_replica needs a function.");
    DistributedDataset mapped = *this;
    if (input_.function) {
      function = [first = input_.function, second = std::move(function)](
                     B batch, ReplicaMapContext& context) {
        return second(first(std::move(batch), context), context);
      };
    }
    mapped.input_.function = std::move(function);
    return mapped;
  }

  /// An iterator over the next epoch.
  ///
  ///   auto iterator = dataset.iterator({.stages = {.count = data::StagesOptions::Count::kAll}});
  ///   ...
  ///   std::cout << data::describe(iterator.stats());
  DistributedIterator<B> iterator(const DistributedIteratorOptions& options = {}) const {
    return {input_,
            {.seed = seed_, .epoch = input_.epochs->take(), .cancel = options.cancel},
            options.stages};
  }
  DistributedIterator<B> iterator(concurrency::CancelToken cancel) const {
    return iterator(DistributedIteratorOptions{.cancel = std::move(cancel)});
  }

  /// The number of global batches in one epoch, data::kInfinite or data::kUnknown. It is unknown if
  /// workers have their own data: the worker with the most data decides the number of steps.
  std::int64_t cardinality() const {
    std::int64_t elements = 0;
    for (const data::Dataset<B>& dataset : input_.datasets) {
      const std::int64_t own = dataset.cardinality();
      if (own < 0) return own;
      elements = std::max(elements, own);
    }
    const bool all_iterate_alike =
        input_.kind == BatchKind::kGlobal && input_.policy == AutoShardPolicy::kData;
    if (elements == 0 || all_iterate_alike) return elements;
    if (input_.layout.num_workers > 1) return data::kUnknown;
    if (input_.datasets.size() > 1) return elements;
    const auto replicas = static_cast<std::int64_t>(input_.devices.size());
    return (elements + replicas - 1) / replicas;
  }

  /// The iterator of range-for.
  class Cursor {
   public:
    using value_type = PerReplica<B>;
    using difference_type = std::ptrdiff_t;
    explicit Cursor(DistributedIterator<B> iterator) : iterator_(std::move(iterator)) { ++*this; }
    const PerReplica<B>& operator*() const { return *batch_; }
    Cursor& operator++() {
      batch_ = iterator_.next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

   private:
    DistributedIterator<B> iterator_;
    std::optional<PerReplica<B>> batch_;
  };
  Cursor begin() const { return Cursor(iterator()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  DistributedInput<B> input_;
  std::uint64_t seed_;
};

}  // namespace brigade::distribute
