#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/element_result.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The state of an input before element `index`, shared by all places that are told from it.
struct InputSnapshot {
  std::uint64_t index = 0;
  io::StateTree state;
};

/// Where an input stands: before element `index`, a few elements behind the note.
struct ReplayPoint {
  std::shared_ptr<const InputSnapshot> snapshot;
  std::uint64_t index = 0;

  ReplayPoint after() const { return {snapshot, index + 1}; }
};

[[noreturn]] void throw_replay_past_end(std::uint64_t index);

/// An input to whose elements a transform can go back, one at a time, for the price of a saved
/// state every few elements. Going back reads again what lies between the note and the place, so
/// the input must keep its order: make it with `options_in_order`.
///
/// Thread-safety: one call at a time.
template <class T>
class ReplayableInput {
 public:
  struct Element {
    ReplayPoint at;
    ElementResult<T> result;  // an element that failed has its place
  };

  ReplayableInput(std::unique_ptr<IteratorBase<T>> input, std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input)),
        cancel_(cancel),
        cancel_poller_(std::move(cancel)),
        position_{std::make_shared<const InputSnapshot>(InputSnapshot{0, input_->save()}), 0} {}

  const ReplayPoint& position() const { return position_; }

  /// The next element, or the error in its place, or the end. Throws if the wait for it was given
  /// up: then it is still the next.
  Element next() {
    cancel_poller_.poll();  // who takes from here may find nothing in it for long
    if (position_.index - position_.snapshot->index >= kElementsPerSnapshot) {
      position_.snapshot = std::make_shared<const InputSnapshot>(InputSnapshot{position_.index, input_->save()});
    }
    Element element{position_, result_of_next(*input_)};
    if (element.result.error && cancel_poller_.is_cancelled()) {
      std::rethrow_exception(element.result.error);
    }
    if (!element.result.is_end()) ++position_.index;
    return element;
  }

  /// Passes over up to `count` elements, and returns how many there were.
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
  /// Small enough that going back reads little again, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerSnapshot = 16;

  std::unique_ptr<IteratorBase<T>> input_;
  std::optional<concurrency::CancelToken> cancel_;
  CancelPoller cancel_poller_;
  ReplayPoint position_;
};

}  // namespace brigade::data::internal
