#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/input/distributed_input.h"
#include "brigade/distribute/input/split_for_replicas.h"
#include "brigade/distribute/input/step_input.h"

namespace brigade::data {
template <class T>
class Dataset;
}  // namespace brigade::data

namespace brigade::distribute {

namespace internal {

template <class B>
PerReplica<B> typed(PerReplica<std::any> batches) {
  std::vector<B> values;
  for (std::size_t i = 0; i < batches.size(); ++i)
    values.push_back(std::any_cast<B>(std::move(batches[i])));
  typename PerReplica<B>::OfAny of_any;
  if (batches.of_any()) {
    of_any = [part = batches.of_any()](int replica) { return std::any_cast<B>(part(replica)); };
  }
  return PerReplica<B>(std::move(values), batches.examples(), std::move(of_any));
}

}  // namespace internal

/// The same for a batch whose type is known.
template <class B>
PerReplica<B> split_for_replicas(const B& batch, const ReplicaRange& replicas,
                                 std::span<const c10::Device> devices) {
  return internal::typed<B>(split_for_replicas(kBatchOps<B>, std::any(batch), replicas, devices));
}

/// Iterates over a distributed dataset: `next` returns the per-replica batches of one global batch,
/// each on its replica's device.
///
/// Batches are split by `input::split_sizes`: sizes differ by at most one, larger ones first. No
/// example is dropped at an uneven end: a replica without examples gets an empty batch, and the
/// iteration ends when no replica of any worker has examples left. Leaving the loop early, or
/// destroying the iterator, stops its threads.
///
/// If a replica is on a GPU, or `InputOptions::per_replica_buffer_size` asks for it, a separate
/// thread prefetches the next batches while the step computes, and copies them on separate streams.
/// The order, the end, errors and saved positions do not change.
///
/// With several workers and AutoShardPolicy::kData, each worker iterates over the same global
/// batches and takes its replicas' part; nothing is sent. If every worker has its own data (by
/// file, by hint, or from a function), all workers make the same calls of `next`, `save`, `restore`
/// and `start_next_epoch`: in each step they agree on who still has data. With prefetching they
/// mostly do so in the calls of the step before, such as that for its gradients, and `next` sends
/// nothing; otherwise it is a collective of the workers, as `save` is. The first `next` is always
/// one: the workers compare their inputs (`check_same_input`).
///
/// Workers without collectives (`StrategyParts::worker`) agree on nothing: each iterates over its
/// part of the data, fails, ends and saves its position alone.
///
/// An error in one worker's data is thrown unchanged in that worker, and fails the step for all:
/// the others throw kAborted naming that worker, from `next` if it is a collective, or else from
/// the `Strategy::run` that waits for its gradients. The step's batches count as read.
///
/// Thread-safety: one thread at a time, outside of replicas; `stats` from any.
template <class B>
class DistributedIterator : public StepInput {
 public:
  using StepInput::StepInput;

  /// The per-replica batches of the next global batch, with their counts of examples; nullopt at
  /// the end. Throws kFailedPrecondition in a replica, and kInvalidArgument in all workers if their
  /// inputs do not match.
  std::optional<PerReplica<B>> next() {
    std::optional<PerReplica<std::any>> batches = StepInput::next();
    if (!batches) return std::nullopt;
    return internal::typed<B>(std::move(*batches));
  }
};

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
  DistributedDataset(const std::vector<data::Dataset<B>>& datasets,
                     std::vector<c10::Device> devices, std::uint64_t seed, BatchKind kind,
                     std::shared_ptr<StepMeter> meter = nullptr, WorkerLayout layout = {},
                     InputOptions options = {},
                     std::shared_ptr<EpochCounter> epochs = std::make_shared<EpochCounter>(),
                     std::shared_ptr<CreatedStates> created = nullptr,
                     std::shared_ptr<const CopyStreams> copy_streams = nullptr)
      : seed_(seed) {
    input_ = {.ops = kBatchOps<B>,
              .devices = std::move(devices),
              .kind = kind,
              .layout = std::move(layout),
              .options = options,
              .meter = std::move(meter),
              .epochs = std::move(epochs),
              .created = std::move(created),
              .copy_streams = std::move(copy_streams)};
    for (const data::Dataset<B>& dataset : datasets)
      input_.datasets.push_back(std::make_shared<AnyNode<B>>(dataset.node()));
    input_ = resolved(std::move(input_));
  }
  DistributedDataset(data::Dataset<B> dataset, std::vector<c10::Device> devices, std::uint64_t seed,
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     WorkerLayout layout = {}, InputOptions options = {},
                     std::shared_ptr<EpochCounter> epochs = std::make_shared<EpochCounter>(),
                     std::shared_ptr<CreatedStates> created = nullptr,
                     std::shared_ptr<const CopyStreams> copy_streams = nullptr)
      : DistributedDataset(std::vector{std::move(dataset)}, std::move(devices), seed, kind,
                           std::move(meter), std::move(layout), options, std::move(epochs),
                           std::move(created), std::move(copy_streams)) {}

  /// This dataset with `function` applied to each per-replica batch, on the replica's device. If
  /// batches are prefetched (`InputOptions::per_replica_buffer_size`), the function runs while the
  /// previous step computes, otherwise in `next`. Use it for random image augmentation on GPUs,
  /// where it costs the host nothing, and to normalize images that are sent as bytes
  /// (`input::ImageNormalizer`). The function must keep the number of examples. If this
  /// dataset already has a function, `function` is applied to its result. The returned dataset
  /// shares the epoch count of this one.
  DistributedDataset map_on_replica(ReplicaMapFunction<B> function,
                                    const ReplicaMapOptions& options = {}) const {
    check_argument(static_cast<bool>(function), "map_on_replica needs a function.");
    DistributedDataset mapped = *this;
    mapped.input_.function = [first = input_.function, second = std::move(function)](
                                 std::any batch, ReplicaMapContext& context) {
      if (first) batch = first(std::move(batch), context);
      return std::any(second(std::any_cast<B>(std::move(batch)), context));
    };
    mapped.input_.function_draws = options.draws || (input_.function && input_.function_draws);
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

  /// The number of global batches in one epoch (of this worker, if workers share no collectives),
  /// data::kInfinite or data::kUnknown. It is unknown if workers have their own data: the worker
  /// with the most data decides the number of steps.
  std::int64_t cardinality() const { return input_.cardinality(); }

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
  DistributedInput input_;
  std::uint64_t seed_;
};

}  // namespace brigade::distribute
