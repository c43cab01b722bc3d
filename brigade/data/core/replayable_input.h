#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_look.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/outcome.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The state of an input before element `place`, shared by all places that are told from it.
struct InputNote {
  std::uint64_t place = 0;
  io::StateTree state;
};

/// Where an input stands: before element `place`, a few elements behind the note.
struct InputPlace {
  std::shared_ptr<const InputNote> note;
  std::uint64_t place = 0;

  InputPlace after() const { return {note, place + 1}; }
};

[[noreturn]] void throw_noted_input_too_short(std::uint64_t place);

/// An input to whose elements a transform can go back, one at a time, for the price of a saved
/// state every few elements. Going back reads again what lies between the note and the place, so
/// the input must keep its order: make it with `options_in_order`.
///
/// Thread-safety: one call at a time.
template <class T>
class NotedInput {
 public:
  struct Element {
    InputPlace at;
    Outcome<T> outcome;  // an element that failed has its place
  };

  NotedInput(std::unique_ptr<IteratorBase<T>> input, std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input)),
        cancel_(cancel),
        look_(std::move(cancel)),
        here_{std::make_shared<const InputNote>(InputNote{0, input_->save()}), 0} {}

  const InputPlace& here() const { return here_; }

  /// The next element, or the error in its place, or the end. Throws if the wait for it was given
  /// up: then it is still the next.
  Element next() {
    look_.pass();  // who takes from here may find nothing in it for long
    if (here_.place - here_.note->place >= kElementsPerNote) {
      here_.note = std::make_shared<const InputNote>(InputNote{here_.place, input_->save()});
    }
    Element element{here_, outcome_of_next(*input_)};
    if (element.outcome.error && look_.is_cancelled()) {
      std::rethrow_exception(element.outcome.error);
    }
    if (!element.outcome.is_end()) ++here_.place;
    return element;
  }

  /// Passes over up to `count` elements, and returns how many there were.
  std::uint64_t skip(std::uint64_t count) {
    const std::uint64_t passed = skip_and_look(*input_, count, cancel_);
    here_.place += passed;
    return passed;
  }

  void go_to(const InputPlace& target) {
    if (target.note != here_.note || target.place < here_.place) {
      input_->restore(target.note->state);
      here_ = {target.note, target.note->place};
    }
    const std::uint64_t distance = target.place - here_.place;
    if (skip_and_look(*input_, distance, cancel_) != distance) {
      throw_noted_input_too_short(target.place);
    }
    here_.place = target.place;
  }

 private:
  /// Small enough that going back reads little again, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;

  std::unique_ptr<IteratorBase<T>> input_;
  std::optional<concurrency::CancelToken> cancel_;
  CancelLook look_;
  InputPlace here_;
};

}  // namespace brigade::data::internal
