#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/auto_shard.h"
#include "brigade/distribute/input_options.h"
#include "brigade/distribute/input_turns.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/share_drawer.h"
#include "brigade/distribute/staged_turns.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/structure.h"  // how batches of tensors come apart
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// This process's replicas' shares of a global batch, on their devices, with all replicas' count of
/// examples. By `input::split_sizes` over the replicas of all workers.
template <class B>
PerReplica<B> cut(const B& batch, const ReplicaRange& replicas,
                  std::span<const c10::Device> devices) {
  std::vector<B> all = input::split(batch, replicas.total);
  std::vector<B> shares;
  ExampleCounts counts{.local = {}, .global = data::Structure<B>::size(batch)};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    B& share = all[static_cast<std::size_t>(replicas.first) + i];
    counts.local.push_back(data::Structure<B>::size(share));
    shares.push_back(devices[i].is_cpu() ? std::move(share) : input::to_device(share, devices[i]));
  }
  return PerReplica<B>(std::move(shares), std::move(counts));
}

/// The rest of a walk over a distributed dataset: `next` gives each replica its share of one global
/// batch, on its device.
///
/// Shares come by `input::split_sizes`: sizes differ by at most one, the larger first. At an uneven
/// end nothing is lost: a replica that is left without examples gets a batch of none, and the end
/// comes when all are without, in every worker. Leaving the loop early, or destroying the iterator,
/// stops its threads.
///
/// Where a replica is on a GPU, or `InputOptions::per_replica_buffer_size` says so, the next
/// batches are made on a thread of the iterator's own while the step computes, and copied by
/// streams of their own: see StagedTurns. The order, the end, errors and saved positions are the
/// same.
///
/// With several workers that share the dataset out by data, each walks over the same global batches
/// and takes its replicas' shares; nothing is sent. Where every worker has data of its own (by
/// file, by hint, or from a function), `next`, `save` and `restore` are collectives of the workers:
/// they agree in each step on who still has data.
///
/// Thread-safety: one thread at a time.
template <class B>
class DistributedIterator {
 public:
  /// A walk over the input from `start` on.
  DistributedIterator(DistributedInput<B> input, const data::IteratorOptions& start)
      : input_(complete(std::move(input))),
        turns_(input_.place,
               input_.kind == BatchKind::kPerReplica || input_.has_shard()
                   ? InputSource::kOwn
                   : InputSource::kSameForAll,
               input_.policy == AutoShardPolicy::kFile
                   ? std::optional(input_.datasets.front().sharing().list)
                   : std::nullopt),
        walk_(std::make_unique<StagedTurns<B>>(input_, start)) {}

  /// The replicas' shares of the next global batch, with their counts of examples, or nothing at
  /// the end.
  std::optional<PerReplica<B>> next() {
    const StepMeter::InputScope waiting_for_input(input_.meter.get());
    return input_.is_cut() ? cut_next() : collect_next();
  }

  /// The position behind the last global batch that `next` returned, and going on there (see
  /// data::Iterator).
  io::StateTree save() const { return turns_.save(walk_->save()); }
  void restore(const io::StateTree& state) { walk_->restore(turns_.restore(state)); }
  std::uint64_t epoch() const { return walk_->epoch(); }
  void start_next_epoch() { walk_->start_next_epoch(); }

 private:
  static DistributedInput<B> complete(DistributedInput<B> input) {
    check_argument(!input.datasets.empty(), "Input needs a dataset.");
    input.place = with_replicas(std::move(input.place), static_cast<int>(input.devices.size()));
    return input;
  }

  std::optional<PerReplica<B>> cut_next() {
    Turn<B> turn = walk_->next();
    if (!turn.has_data()) return std::nullopt;
    return PerReplica<B>(received(std::move(turn.shares)), std::move(turn.examples));
  }

  std::optional<PerReplica<B>> collect_next() {
    for (;;) {
      Turn<B> turn = walk_->next();
      if (!turn.has_data()) turn.examples.local.clear();
      const auto agreed = turns_.agree(turn.examples.local);
      if (!agreed.somebody_has_data) return std::nullopt;
      // All pieces may have been ends of smaller batches.
      if (input_.has_shard() && agreed.examples == 0) continue;
      turn.examples.global = agreed.examples;
      turn.examples.local.resize(input_.devices.size(), 0);
      return PerReplica<B>(received(std::move(turn.shares)), std::move(turn.examples));
    }
  }

  /// The shares, for use on the caller's streams; batches of none for replicas without one.
  std::vector<B> received(std::vector<std::optional<PlacedShare<B>>> placed) {
    placed.resize(input_.devices.size());
    std::vector<std::optional<B>> shares(placed.size());
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (!placed[i]) continue;
      shares[i] = std::move(*placed[i]).received(input_.devices[i]);
      if (!none_) none_ = none_of(*shares[i]);
    }
    std::vector<B> all;
    for (std::size_t i = 0; i < shares.size(); ++i)
      all.push_back(shares[i] ? std::move(*shares[i]) : none_for(i));
    return all;
  }

  B none_for(std::size_t local) {
    if (!none_ && input_.has_shard()) none_ = none_of_the_whole();
    check_state(none_.has_value(), kNoData);
    const bool stays = input_.options.fetch == DeviceFetch::kStayOnHost &&
                       input_.options.placement == DatasetPlacement::kOnHost;
    return stays ? *none_ : input::to_device(*none_, input_.devices[local]);
  }
  /// With memory of its own: else it would keep the batch's.
  static B none_of(const B& batch) {
    return input::each_tensor(data::Structure<B>::slice(batch, 0, 0),
                              [](const at::Tensor& tensor) { return tensor.clone(); });
  }
  /// For a worker whose shard is empty: the others' data shows what a batch looks like.
  std::optional<B> none_of_the_whole() const {
    const std::optional<B> batch = input_.datasets.front().iterator().next();
    if (!batch) return std::nullopt;
    return none_of(walk_->none_like(*batch, 0).received(input_.devices.front()));
  }

  static constexpr const char* kNoData =
      "This worker's dataset has no batch at all while others have some, so it does not know what "
      "an empty one looks like: give every worker at least one.";

  DistributedInput<B> input_;
  InputTurns turns_;
  std::unique_ptr<StagedTurns<B>> walk_;  // its thread knows where it lies
  std::optional<B> none_;                 // a batch without examples
};

/// A dataset whose batches arrive cut for the replicas of a strategy. Made by
/// `Strategy::distribute`. Each range-for over it is a new epoch: a shuffle inside gives each its
/// own order. TensorFlow: tf.distribute.DistributedDataset. A handle: copies count epochs together.
///
/// Thread-safety: loops in several threads are different epochs.
template <class B>
class DistributedDataset {
 public:
  /// Throws kInvalidArgument if batches cannot be shared out, or brought to devices, as `options`
  /// ask. `datasets` is one, or one for each device.
  DistributedDataset(std::vector<data::Dataset<B>> datasets, std::vector<c10::Device> devices,
                     std::uint64_t seed, BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     InputPlace place = {}, InputOptions options = {})
      : input_{.datasets = std::move(datasets),
               .devices = std::move(devices),
               .kind = kind,
               .place = std::move(place),
               .options = options,
               .meter = std::move(meter)},
        seed_(seed),
        next_epoch_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
    check_input_options(options, kind);
    if (kind == BatchKind::kGlobal)
      input_.policy =
          auto_shard_at(input_.place, options.auto_shard, input_.datasets.front().sharing());
  }
  DistributedDataset(data::Dataset<B> dataset, std::vector<c10::Device> devices, std::uint64_t seed,
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     InputPlace place = {}, InputOptions options = {})
      : DistributedDataset(std::vector{std::move(dataset)}, std::move(devices), seed, kind,
                           std::move(meter), std::move(place), options) {}

  /// This dataset with `function` called on each replica's share, on the replica's device: ahead of
  /// the step, while the one before computes, where batches are made ahead
  /// (`InputOptions::per_replica_buffer_size`), else in `next`. The place for random changes to
  /// pictures on GPUs, where they cost the host nothing. Shares keep their number of examples. On a
  /// dataset that has a function, `function` is called on what that one makes. Epochs are counted
  /// together with this dataset's.
  DistributedDataset map_on_replica(ShareFunction<B> function) const {
    check_argument(static_cast<bool>(function), "map_on_replica needs a function.");
    DistributedDataset mapped = *this;
    if (input_.function) {
      function = [first = input_.function, second = std::move(function)](B share,
                                                                         ShareContext& context) {
        return second(first(std::move(share), context), context);
      };
    }
    mapped.input_.function = std::move(function);
    return mapped;
  }

  /// A walk over the next epoch. Whoever cancels `cancel` ends every wait for data: `next` then
  /// throws kCancelled. Unset: nobody does.
  DistributedIterator<B> iterator(std::optional<concurrency::CancelToken> cancel = {}) const {
    return {input_,
            {.seed = seed_, .epoch = next_epoch_->fetch_add(1), .cancel = std::move(cancel)}};
  }

  /// Global batches in one epoch, or data::kInfinite, or data::kUnknown: which it is where the
  /// workers have data of their own, whose number of steps is that of the longest.
  std::int64_t cardinality() const {
    std::int64_t elements = 0;
    for (const data::Dataset<B>& dataset : input_.datasets) {
      const std::int64_t own = dataset.cardinality();
      if (own < 0) return own;
      elements = std::max(elements, own);
    }
    const bool is_common =
        input_.kind == BatchKind::kGlobal && input_.policy == AutoShardPolicy::kData;
    if (elements == 0 || is_common) return elements;
    if (input_.place.num_workers > 1) return data::kUnknown;
    if (input_.datasets.size() > 1) return elements;
    const auto replicas = static_cast<std::int64_t>(input_.devices.size());
    return (elements + replicas - 1) / replicas;
  }

  /// What range-for moves along.
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
  std::shared_ptr<std::atomic<std::uint64_t>> next_epoch_;
};

}  // namespace brigade::distribute
