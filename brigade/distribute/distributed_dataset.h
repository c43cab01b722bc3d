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
#include "brigade/distribute/input_options.h"
#include "brigade/distribute/input_turns.h"
#include "brigade/distribute/per_replica.h"
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
/// With several workers each walks over the same global batches and takes its replicas' shares
/// (kData); nothing is sent. Where every worker has a dataset of its own (kPerReplica), `next`,
/// `save` and `restore` are collectives of the workers: they agree in each step on who still has
/// data.
///
/// Thread-safety: one thread at a time.
template <class B>
class DistributedIterator {
 public:
  /// The time in `next` is added to `meter`, where there is one.
  DistributedIterator(data::Iterator<B> iterator, std::vector<c10::Device> devices, BatchKind kind,
                      std::shared_ptr<StepMeter> meter = nullptr, InputPlace place = {},
                      InputOptions options = {})
      : iterator_(std::move(iterator)),
        devices_(std::move(devices)),
        kind_(kind),
        meter_(std::move(meter)),
        turns_(with_replicas(std::move(place), static_cast<int>(devices_.size())), options,
               kind == BatchKind::kGlobal ? InputSource::kSameForAll : InputSource::kOwn) {}

  /// The replicas' shares of the next global batch, with their counts of examples, or nothing at
  /// the end.
  std::optional<PerReplica<B>> next() {
    const StepMeter::InputScope waiting_for_input(meter_.get());
    return kind_ == BatchKind::kGlobal ? cut_next() : collect_next();
  }

  /// The position behind the last global batch that `next` returned, and going on there (see
  /// data::Iterator).
  io::StateTree save() const { return turns_.save(turn_ == 0 ? iterator_.save() : before_, turn_); }
  void restore(const io::StateTree& state) {
    const auto [position, turn] = turns_.restore(state);
    iterator_.restore(position);
    begin_anew();
    while (turn_ < turn) next();
  }
  std::uint64_t epoch() const { return iterator_.epoch(); }
  void start_next_epoch() {
    begin_anew();
    iterator_.start_next_epoch();
  }

 private:
  void begin_anew() {
    pieces_.clear();
    turn_ = 0;
    has_ended_ = false;
  }

  std::optional<PerReplica<B>> cut_next() {
    if (turns_.per_batch() == 1) {
      std::optional<B> batch = iterator_.next();
      if (!batch) return std::nullopt;
      return cut(*batch, turns_.replicas(), devices_);
    }
    if (pieces_.empty() && !draw_pieces()) return std::nullopt;
    PerReplica<B> shares = cut(
        pieces_.front(),
        {.local = static_cast<int>(devices_.size()), .total = static_cast<int>(devices_.size())},
        devices_);
    ExampleCounts counts = *shares.examples();
    counts.global *= turns_.per_batch();
    pieces_.erase(pieces_.begin());
    turn_ = pieces_.empty() ? 0 : turn_ + 1;
    return PerReplica<B>(shares.values(), std::move(counts));
  }

  /// Every worker trains on the whole batch, a worker's part of it at a time.
  bool draw_pieces() {
    before_ = iterator_.save();
    std::optional<B> batch = iterator_.next();
    if (!batch) return false;
    for (B& piece : input::split(*batch, turns_.per_batch())) {
      if (data::Structure<B>::size(piece) > 0) pieces_.push_back(std::move(piece));
    }
    return true;
  }

  std::optional<PerReplica<B>> collect_next() {
    std::vector<B> shares;
    ExampleCounts counts;
    while (shares.size() < devices_.size() && !has_ended_) {
      std::optional<B> batch = iterator_.next();
      has_ended_ = !batch.has_value();
      if (batch) shares.push_back(std::move(*batch));
    }
    if (!shares.empty()) none_ = data::Structure<B>::slice(shares.front(), 0, 0);
    for (const B& share : shares) counts.local.push_back(data::Structure<B>::size(share));
    const auto agreed = turns_.agree(counts.local);
    if (!agreed.somebody_has_data) return std::nullopt;
    check_state(none_.has_value(), kNoData);
    counts.global = agreed.examples;
    counts.local.resize(devices_.size(), 0);
    shares.resize(devices_.size(), *none_);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!devices_[i].is_cpu()) shares[i] = input::to_device(shares[i], devices_[i]);
    }
    return PerReplica<B>(std::move(shares), std::move(counts));
  }

  static constexpr const char* kNoData =
      "This worker's dataset has no batch at all while others have some, so it does not know what "
      "an empty one looks like: give every worker at least one.";

  data::Iterator<B> iterator_;
  std::vector<c10::Device> devices_;
  BatchKind kind_;
  std::shared_ptr<StepMeter> meter_;
  InputTurns turns_;
  std::vector<B> pieces_;   // of a batch that every worker trains on whole; what is left of it
  std::int64_t turn_ = 0;   // pieces of it given out
  io::StateTree before_;    // the position before it
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
  DistributedDataset(data::Dataset<B> dataset, std::vector<c10::Device> devices, std::uint64_t seed,
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr,
                     InputPlace place = {}, InputOptions options = {})
      : dataset_(std::move(dataset)),
        devices_(std::move(devices)),
        seed_(seed),
        kind_(kind),
        meter_(std::move(meter)),
        place_(std::move(place)),
        options_(options),
        next_epoch_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  /// A walk over the next epoch.
  DistributedIterator<B> iterator() const {
    return {dataset_.iterator({.seed = seed_, .epoch = next_epoch_->fetch_add(1)}),
            devices_,
            kind_,
            meter_,
            place_,
            options_};
  }

  /// Global batches in one epoch, or data::kInfinite, or data::kUnknown. Of a worker's own data
  /// those that it has itself.
  std::int64_t cardinality() const {
    const std::int64_t elements = dataset_.cardinality();
    const auto replicas = static_cast<std::int64_t>(devices_.size());
    return kind_ == BatchKind::kGlobal || elements < 0 ? elements
                                                       : (elements + replicas - 1) / replicas;
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
  InputOptions options_;
  std::shared_ptr<std::atomic<std::uint64_t>> next_epoch_;
};

}  // namespace brigade::distribute
