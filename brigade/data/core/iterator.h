#pragma once

#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/runtime/measured.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

template <class T>
class Cursor;

/// Iterates over a dataset, and can save and restore its position.
///
/// `next()` returns the elements of an epoch in order, and then `std::nullopt`: the end of the data
/// is never an exception. `start_next_epoch()` starts the next epoch, in a new order if the dataset
/// shuffles. If an element fails (its file is broken, its map function threw), `next()` throws the
/// error when the element is due; the next call continues after it.
///
/// `save()` returns the position after the last element that `next()` returned, however many
/// elements worker threads have prepared after it. `restore()` on an iterator of the same dataset
/// continues exactly there. Destroying an iterator, also in the middle of an epoch, stops and joins
/// its threads.
///
/// TensorFlow counterpart: tf.data.Iterator, with Checkpoint(iterator=...) built in.
/// Thread-safety: one thread at a time, any thread.
template <class T>
class Iterator {
 public:
  using Element = T;

  Iterator(NodePtr<T> node, IteratorOptions options)
      : node_(std::move(node)), options_(std::move(options)) {
    check_shard(options_.shard.count, options_.shard.index, "iterator");
    if (!options_.stages) options_.stages = std::make_shared<Stages>();  // for the tuner
    base_ = make_base(options_);
  }
  Iterator(Iterator&&) = default;
  Iterator& operator=(Iterator&& other) {
    // First the old iterator, whose threads read the old dataset.
    base_ = std::move(other.base_);
    node_ = std::move(other.node_);
    options_ = other.options_;
    is_interrupted_ = other.is_interrupted_;
    return *this;
  }

  /// The next element, or `std::nullopt` at the end of the epoch. Throws the element's error if it
  /// failed. Throws kCancelled, without consuming an element, once `IteratorOptions::cancel` is
  /// cancelled, also by another thread while this call waits.
  std::optional<T> next() {
    return advance([this] { return base_->next(); });
  }
  /// Moves past up to `count` elements, failed ones included, as cheaply as the transforms can.
  /// Returns how many there were: fewer than `count` only at the end. Throws kCancelled as `next`.
  std::uint64_t skip(std::uint64_t count) {
    return advance([&] { return base_->skip(count); });
  }

  /// Everything that `restore` needs: seed, epoch, the pipeline description, and the position of
  /// each transform. Throws kFailedPrecondition if a call of `next` was cancelled midway, unless
  /// the last step has threads (prefetch, parallel map): those keep their position.
  io::StateTree save() const {
    check_state(
        !is_interrupted_,
        "Iterator::save: a call of next was cancelled midway, and elements may be lost with "
        "it; save before, or put prefetch last");
    check_begun();
    return iterator_state(options_, node_->pipeline(), base_->save());
  }

  /// The statistics of each step since the iterator was created, sources first: of all steps if
  /// `IteratorOptions::stages` was created with kAll, otherwise of those that `kAutotune` adjusts.
  std::vector<StageStats> stats() const { return options_.stages->stats(); }

  /// Moves to the position that `state` was saved at. Seed and epoch are taken from the state, so
  /// that a resumed job repeats and misses no element. Throws kInvalidArgument, naming the first
  /// step that differs, and does not move, if the state was saved from another pipeline or in
  /// another shard. `match` says how closely the pipelines must match.
  void restore(const io::StateTree& state, PipelineMatch match = PipelineMatch::kExact) {
    check_pipeline_of_state(state, node_->pipeline(), match);
    const IteratorOptions saved = options_of_state(state);
    check_same_shard(saved.shard, options_.shard);
    IteratorOptions options = options_;
    options.seed = saved.seed;
    options.epoch = saved.epoch;
    options.shard = saved.shard;
    auto base = make_base(options);
    base->restore(position_of_state(state));
    base_ = std::move(base);
    options_ = std::move(options);
    is_interrupted_ = false;
  }

  /// Starts the next epoch, from any position in this one. If it throws, call it again or restore a
  /// position; until then `next` throws kFailedPrecondition.
  void start_next_epoch() {
    base_ = nullptr;  // joins the threads of this epoch before the next one starts its own
    IteratorOptions options = options_;
    ++options.epoch;
    base_ = make_base(options);
    options_ = std::move(options);
    is_interrupted_ = false;
  }

  /// The number of this epoch; the first is `IteratorOptions::epoch`.
  std::uint64_t epoch() const { return options_.epoch; }

  /// For range-for: continues at the iterator's position, and stops at the end of the epoch.
  Cursor<T> begin() { return Cursor<T>(std::shared_ptr<Iterator>(std::shared_ptr<void>(), this)); }
  std::default_sentinel_t end() { return {}; }

 private:
  std::unique_ptr<IteratorBase<T>> make_base(const IteratorOptions& options) const {
    return internal::measured(node_->iterator(options), options.stages, node_->describe());
  }
  template <class Move>
  auto advance(const Move& move) {
    if (is_cancelled()) std::rethrow_exception(cancelled_error());
    check_begun();
    try {
      return move();
    } catch (...) {
      // Elements that this call has read may be lost.
      is_interrupted_ |= is_cancelled() && !base_->keeps_position_when_cancelled();
      throw;
    }
  }
  void check_begun() const {
    check_state(base_ != nullptr,
                "Iterator: the next epoch could not be started; call start_next_epoch again, or "
                "restore a position");
  }
  bool is_cancelled() const { return options_.cancel && options_.cancel->is_cancelled(); }

  NodePtr<T> node_;  // first, so that it outlives what it made
  IteratorOptions options_;
  std::unique_ptr<IteratorBase<T>> base_;
  bool is_interrupted_ = false;
};

/// The iterator type of range-for: holds the element just read. Use `Iterator` to save positions.
///
/// Thread-safety: one thread at a time.
template <class T>
class Cursor {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  explicit Cursor(std::shared_ptr<Iterator<T>> iterator) : iterator_(std::move(iterator)) {
    ++*this;
  }
  T& operator*() { return *element_; }
  Cursor& operator++() {
    element_ = iterator_->next();
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return !element_.has_value(); }

 private:
  std::shared_ptr<Iterator<T>> iterator_;
  std::optional<T> element_;
};

}  // namespace brigade::data
