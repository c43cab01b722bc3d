#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/input/split.h"
#include "brigade/input/structure.h"  // how batches of tensors come apart
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// Whether the elements of a dataset are global batches, to be cut for the replicas, or one
/// replica's each.
enum class BatchKind { kGlobal, kPerReplica };

/// The rest of a walk over a distributed dataset: `next` gives each replica its share of one global
/// batch, on its device.
///
/// Shares come by `input::split_sizes`: sizes differ by at most one, the larger first. At an uneven
/// end nothing is lost: a replica that is left without examples gets a batch of none, and the end
/// comes when all are without. Leaving the loop early, or destroying the iterator, stops its
/// threads.
///
/// Thread-safety: one thread at a time.
template <class B>
class DistributedIterator {
 public:
  /// The time in `next` is added to `meter`, where there is one.
  DistributedIterator(data::Iterator<B> iterator, std::vector<c10::Device> devices, BatchKind kind,
                      std::shared_ptr<StepMeter> meter = nullptr)
      : iterator_(std::move(iterator)),
        devices_(std::move(devices)),
        kind_(kind),
        meter_(std::move(meter)) {}

  /// The replicas' shares of the next global batch, with their counts of examples, or nothing at
  /// the end.
  std::optional<PerReplica<B>> next() {
    const StepMeter::InputScope waiting_for_input(meter_.get());
    std::vector<B> shares = kind_ == BatchKind::kGlobal ? cut_next() : collect_next();
    if (shares.empty()) return std::nullopt;
    std::vector<std::int64_t> counts;
    for (std::size_t replica = 0; replica < shares.size(); ++replica) {
      counts.push_back(data::Structure<B>::size(shares[replica]));
      if (!devices_[replica].is_cpu())
        shares[replica] = input::to_device(shares[replica], devices_[replica]);
    }
    return PerReplica<B>(std::move(shares), ExampleCounts::of(std::move(counts)));
  }

  /// The position behind the last global batch that `next` returned, and going on there (see
  /// data::Iterator).
  io::StateTree save() const { return iterator_.save(); }
  void restore(const io::StateTree& state) { iterator_.restore(state); }
  std::uint64_t epoch() const { return iterator_.epoch(); }
  void start_next_epoch() { iterator_.start_next_epoch(); }

 private:
  std::vector<B> cut_next() {
    std::optional<B> batch = iterator_.next();
    if (!batch) return {};
    return input::split(*batch, static_cast<std::int64_t>(devices_.size()));
  }

  std::vector<B> collect_next() {
    std::vector<B> shares;
    while (shares.size() < devices_.size()) {
      std::optional<B> batch = iterator_.next();
      if (!batch) break;
      shares.push_back(std::move(*batch));
    }
    if (shares.empty()) return {};
    while (shares.size() < devices_.size())
      shares.push_back(data::Structure<B>::slice(shares.front(), 0, 0));
    return shares;
  }

  data::Iterator<B> iterator_;
  std::vector<c10::Device> devices_;
  BatchKind kind_;
  std::shared_ptr<StepMeter> meter_;
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
                     BatchKind kind, std::shared_ptr<StepMeter> meter = nullptr)
      : dataset_(std::move(dataset)),
        devices_(std::move(devices)),
        seed_(seed),
        kind_(kind),
        meter_(std::move(meter)),
        next_epoch_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  /// A walk over the next epoch.
  DistributedIterator<B> iterator() const {
    return {dataset_.iterator({.seed = seed_, .epoch = next_epoch_->fetch_add(1)}), devices_, kind_,
            meter_};
  }

  /// Global batches in one epoch, or data::kInfinite, or data::kUnknown.
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
  std::shared_ptr<std::atomic<std::uint64_t>> next_epoch_;
};

}  // namespace brigade::distribute
