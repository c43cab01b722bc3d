#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/node.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The saved state of an input before element `index`. Several replay points share one.
struct InputSnapshot {
  std::uint64_t index = 0;
  io::StateTree state;
};

/// A position in an input that can be read again: before element `index`, at most a few elements
/// after the snapshot.
struct ReplayPoint {
  std::shared_ptr<const InputSnapshot> snapshot;
  std::uint64_t index = 0;

  ReplayPoint after() const { return {snapshot, index + 1}; }
};

/// The replay point as a part of a saved state: the snapshot's index and state, and the point's
/// index.
io::StateTree save_replay_point(const ReplayPoint& point);

/// Throws kInvalidArgument if `state` was not made by `save_replay_point`.
ReplayPoint load_replay_point(const io::StateTree& state);

/// Throws kInvalidArgument: the input has fewer elements than when the position was saved.
[[noreturn]] void throw_replay_past_end(std::uint64_t index);

/// An input whose elements a transform can read again, one at a time. It saves the state of the
/// input every few elements. `seek` restores such a snapshot and re-reads the elements from there,
/// so the input must keep its order: make it with `options_in_order`.
///
/// Thread-safety: one call at a time.
template <class T>
class ReplayableInput {
 public:
  struct Element {
    ReplayPoint at;
    ElementResult<T> result;  // an element that failed has a position too
  };

  ReplayableInput(std::unique_ptr<IteratorBase<T>> input,
                  std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input)),
        cancel_(cancel),
        cancel_poller_(std::move(cancel)),
        position_{std::make_shared<const InputSnapshot>(InputSnapshot{0, input_->save()}), 0} {}

  const ReplayPoint& position() const { return position_; }

  /// The next element, or its error, or the end. Throws kCancelled if the iteration is cancelled:
  /// then the position does not change.
  Element next() {
    cancel_poller_.poll();  // the caller may read many elements without returning one
    if (position_.index - position_.snapshot->index >= kElementsPerSnapshot) {
      position_.snapshot =
          std::make_shared<const InputSnapshot>(InputSnapshot{position_.index, input_->save()});
    }
    Element element{position_, result_unless_cancelled(*input_, cancel_)};
    if (!element.result.is_end()) ++position_.index;
    return element;
  }

  /// Skips up to `count` elements, and returns how many it skipped.
  std::uint64_t skip(std::uint64_t count) {
    const std::uint64_t passed = cancellable_skip(*input_, count, cancel_);
    position_.index += passed;
    return passed;
  }

  void seek(const ReplayPoint& target) {
    if (target.snapshot != position_.snapshot || target.index < position_.index) {
      input_->restore(target.snapshot->state);
      position_ = {target.snapshot, target.snapshot->index};
    }
    const std::uint64_t distance = target.index - position_.index;
    if (cancellable_skip(*input_, distance, cancel_) != distance) {
      throw_replay_past_end(target.index);
    }
    position_.index = target.index;
  }

 private:
  /// Small enough that `seek` re-reads little, large enough that snapshots cost next to nothing.
  static constexpr std::uint64_t kElementsPerSnapshot = 16;

  std::unique_ptr<IteratorBase<T>> input_;
  std::optional<concurrency::CancelToken> cancel_;
  CancelPoller cancel_poller_;
  ReplayPoint position_;
};

}  // namespace brigade::data::internal
