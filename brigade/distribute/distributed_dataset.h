#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/distribute/auto_shard.h"
#include "brigade/distribute/input_options.h"
#include "brigade/distribute/input_turns.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/piecewise_walk.h"
#include "brigade/distribute/rebatch.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/structure.h"  // how batches of tensors come apart
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// Whether the elements of a dataset are global batches, to be cut for the replicas, or one
/// replica's each.
enum class BatchKind { kGlobal, kPerReplica };

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
/// With several workers that share the dataset out by data, each walks over the same global batches
/// and takes its replicas' shares; nothing is sent. Where every worker has data of its own (by
/// file, by hint, or from a function), `next`, `save` and `restore` are collectives of the workers:
/// they agree in each step on who still has data.
///
/// Thread-safety: one thread at a time.
template <class B>
class DistributedIterator {
 public:
  /// A walk from `start` on; `place` and `policy` (one that `choose_auto_shard` gave) say which
  /// part is this worker's. The time in `next` is added to `meter`, where there is one.
  DistributedIterator(data::Dataset<B> dataset, data::IteratorOptions start,
                      std::vector<c10::Device> devices, BatchKind kind,
                      std::shared_ptr<StepMeter> meter = nullptr, InputPlace place = {},
                      AutoShardPolicy policy = AutoShardPolicy::kData)
      : dataset_(std::move(dataset)),
        devices_(std::move(devices)),
        kind_(kind),
        policy_(policy),
        meter_(std::move(meter)),
        turns_(with_replicas(std::move(place), static_cast<int>(devices_.size())),
               kind == BatchKind::kPerReplica || has_shard() ? InputSource::kOwn
                                                             : InputSource::kSameForAll,
               policy == AutoShardPolicy::kFile ? std::optional(dataset_.sharing().list)
                                                : std::nullopt),
        walk_(dataset_.iterator(in_shard(start)), piece_sizes(policy, turns_.place())) {}

  /// The replicas' shares of the next global batch, with their counts of examples, or nothing at
  /// the end.
  std::optional<PerReplica<B>> next() {
    const StepMeter::InputScope waiting_for_input(meter_.get());
    return kind_ == BatchKind::kGlobal && !has_shard() ? cut_next() : collect_next();
  }

  /// The position behind the last global batch that `next` returned, and going on there (see
  /// data::Iterator).
  io::StateTree save() const { return turns_.save(walk_.save()); }
  void restore(const io::StateTree& state) {
    walk_.restore(turns_.restore(state));
    has_ended_ = false;
  }
  std::uint64_t epoch() const { return walk_.epoch(); }
  void start_next_epoch() {
    walk_.start_next_epoch();
    has_ended_ = false;
  }

 private:
  bool has_shard() const {
    return policy_ == AutoShardPolicy::kFile || policy_ == AutoShardPolicy::kHint;
  }
  data::IteratorOptions in_shard(data::IteratorOptions start) const {
    start.shard = shard_of(turns_.place(), policy_);
    return start;
  }

  std::optional<PerReplica<B>> cut_next() {
    std::optional<B> piece = walk_.next();
    if (!piece) return std::nullopt;
    if (policy_ != AutoShardPolicy::kOff) return cut(*piece, turns_.place().replicas, devices_);
    const auto local = static_cast<int>(devices_.size());
    PerReplica<B> shares = cut(*piece, {.local = local, .total = local}, devices_);
    ExampleCounts counts = *shares.examples();
    counts.global *= turns_.place().num_workers;  // all train on the same piece
    return PerReplica<B>(shares.values(), std::move(counts));
  }

  std::optional<PerReplica<B>> collect_next() {
    for (;;) {
      std::vector<B> shares = draw_shares();
      ExampleCounts counts;
      for (const B& share : shares) counts.local.push_back(data::Structure<B>::size(share));
      const auto agreed = turns_.agree(counts.local);
      if (!agreed.somebody_has_data) return std::nullopt;
      if (has_shard() && agreed.examples == 0) continue;  // all pieces were ends of smaller batches
      counts.global = agreed.examples;
      counts.local.resize(devices_.size(), 0);
      return PerReplica<B>(filled_up(std::move(shares)), std::move(counts));
    }
  }

  /// The next batch or piece of each replica, as far as this worker's own data goes.
  std::vector<B> draw_shares() {
    std::vector<B> shares;
    while (shares.size() < devices_.size() && !has_ended_) {
      std::optional<B> share = walk_.next();
      has_ended_ = !share.has_value();
      if (share) shares.push_back(std::move(*share));
    }
    return shares;
  }

  std::vector<B> filled_up(std::vector<B> shares) {
    if (!shares.empty()) none_ = data::Structure<B>::slice(shares.front(), 0, 0);
    if (!none_ && has_shard()) none_ = none_of_the_whole();
    check_state(none_.has_value(), kNoData);
    shares.resize(devices_.size(), *none_);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!devices_[i].is_cpu()) shares[i] = input::to_device(shares[i], devices_[i]);
    }
    return shares;
  }
  /// For a worker whose shard is empty: the others' data shows what a batch looks like.
  std::optional<B> none_of_the_whole() const {
    const std::optional<B> batch = dataset_.iterator().next();
    if (!batch) return std::nullopt;
    return data::Structure<B>::slice(*batch, 0, 0);
  }

  static constexpr const char* kNoData =
      "This worker's dataset has no batch at all while others have some, so it does not know what "
      "an empty one looks like: give every worker at least one.";

  data::Dataset<B> dataset_;
  std::vector<c10::Device> devices_;
  BatchKind kind_;
  AutoShardPolicy policy_;
  std::shared_ptr<StepMeter> meter_;
  InputTurns turns_;
  PiecewiseWalk<B> walk_;
  std::optional<B> none_;   // a batch without examples
  bool has_ended_ = false;  // this worker's own data
};

/// A dataset whose batches arrive cut for the replicas of a strategy. Made by
/// `Strategy::distribute`. Each range-for over it is a new epoch: a shuffle inside gives each its
/// own order. TensorFlow: tf.distribute.DistributedDataset. A handle: copies count epochs together.
///
/// Thread-safety: loops in several threads are different epochs.
template <class B>
class DistributedDataset {
 public:
  /// Throws kInvalidArgument if global batches cannot be shared out as `options` ask.
  DistributedDataset(data::Dataset<B> dataset, std::vector<c10::Device> devices, std::uint64_t seed,
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     InputPlace place = {}, InputOptions options = {})
      : dataset_(std::move(dataset)),
        devices_(std::move(devices)),
        seed_(seed),
        kind_(kind),
        meter_(std::move(meter)),
        place_(std::move(place)),
        policy_(kind == BatchKind::kGlobal
                    ? auto_shard_at(place_, options.auto_shard, dataset_.sharing())
                    : AutoShardPolicy::kData),
        next_epoch_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  /// A walk over the next epoch.
  DistributedIterator<B> iterator() const {
    return {dataset_, {.seed = seed_, .epoch = next_epoch_->fetch_add(1)},
            devices_, kind_,
            meter_,   place_,
            policy_};
  }

  /// Global batches in one epoch, or data::kInfinite, or data::kUnknown: which it is where the
  /// workers have data of their own, whose number of steps is that of the longest.
  std::int64_t cardinality() const {
    const std::int64_t elements = dataset_.cardinality();
    if (elements <= 0) return elements;
    const bool is_common = kind_ == BatchKind::kGlobal && policy_ == AutoShardPolicy::kData;
    if (is_common) return elements;
    if (place_.num_workers > 1) return data::kUnknown;
    const auto replicas = static_cast<std::int64_t>(devices_.size());
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
  data::Dataset<B> dataset_;
  std::vector<c10::Device> devices_;
  std::uint64_t seed_;
  BatchKind kind_;
  std::shared_ptr<StepMeter> meter_;
  InputPlace place_;
  AutoShardPolicy policy_;
  std::shared_ptr<std::atomic<std::uint64_t>> next_epoch_;
};

}  // namespace brigade::distribute
