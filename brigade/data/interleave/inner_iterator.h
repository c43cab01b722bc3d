#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/transforms/map.h"

namespace brigade::data::internal {

/// An iterator over the dataset made from one input element, or the error if it could not be
/// created.
///
/// Thread-safety: one thread at a time.
template <class U>
struct InnerIterator {
  ReplayPoint element;  // the element that the dataset was made from
  NodePtr<U> node;      // declared before its iterator, so that it outlives it
  std::unique_ptr<IteratorBase<U>> iterator;  // null if there was an error
  std::exception_ptr error;

  bool is_open() const { return iterator != nullptr || error != nullptr; }
  void close() {
    iterator = nullptr;
    node = nullptr;
    error = nullptr;
  }
};

/// Rethrows the current exception as an `Error` that names the step and the element from which the
/// dataset was made.
[[noreturn]] void rethrow_in_inner(const std::string& where, std::uint64_t epoch,
                                   std::uint64_t element);

/// Throws kInvalidArgument: a dataset made from `element` has fewer elements than when the position
/// was saved.
[[noreturn]] void throw_inner_too_short(const std::string& where, std::uint64_t element);

/// Makes a dataset from each element, for one iterator of flat_map or interleave.
///
/// Thread-safety: const calls from any number of threads.
template <class T, class U>
struct InnerMaker {
  std::function<NodePtr<U>(T&&)> make;
  std::string where;  // for messages
  IteratorOptions options;

  /// Errors of the element, of the function and of creating the iterator are stored in the result.
  InnerIterator<U> open(ReplayPoint at, ElementResult<T> element) const {
    InnerIterator<U> inner{std::move(at), nullptr, nullptr, std::move(element.error)};
    if (inner.error) return inner;
    try {
      open_in(inner, std::move(*element.element));
    } catch (...) {
      inner.close();
      inner.error = std::current_exception();
    }
    return inner;
  }
  /// The next element of the inner dataset. Errors name the step and the input element.
  std::optional<U> next(InnerIterator<U>& inner) const {
    try {
      return inner.iterator->next();
    } catch (...) {
      rethrow_in_inner(where, options.epoch, inner.element.index);
    }
  }
  /// Whether the iteration was cancelled, so that an exception does not belong to an element.
  bool is_cancelled() const { return internal::is_cancelled(options.cancel); }

 private:
  void open_in(InnerIterator<U>& inner, T&& element) const {
    try {
      inner.node = make(std::move(element));
      inner.iterator = inner.node->iterator(options_of_inner(options, inner.element.index));
    } catch (...) {
      rethrow_at_element(where, options.epoch, inner.element.index);
    }
  }
};

/// Recreates the inner dataset of a saved position and moves its iterator there. Afterwards the
/// input is positioned after the element. A dataset that could not be created and of which nothing
/// was delivered keeps its error.
template <class T, class U>
InnerIterator<U> reopen(ReplayableInput<T>& input, const InnerMaker<T, U>& maker,
                        const InnerPosition& position) {
  input.seek(position.element);
  auto element = input.next();
  if (element.result.is_end()) throw_replay_past_end(position.element.index);
  // Uses the saved snapshot, not a newer one that the input may have taken since.
  InnerIterator<U> inner = maker.open(position.element, std::move(element.result));
  const bool is_at_start = !position.state && position.delivered == 0;
  if (is_at_start) return inner;
  if (inner.error) std::rethrow_exception(inner.error);
  if (position.state) inner.iterator->restore(*position.state);
  if (cancellable_skip(*inner.iterator, position.delivered, maker.options.cancel) !=
      position.delivered) {
    throw_inner_too_short(maker.where, inner.element.index);
  }
  return inner;
}

/// One inner iterator for each slot of the cycle; those of empty slots are not open. Afterwards the
/// input is at the saved position.
template <class T, class U>
std::vector<InnerIterator<U>> reopen_all(ReplayableInput<T>& input, const InnerMaker<T, U>& maker,
                                         const InterleavePosition& position) {
  std::vector<InnerIterator<U>> iterators(position.slots.size());
  for (const std::size_t slot : position.slots_by_element()) {
    iterators[slot] = reopen(input, maker, *position.slots[slot]);
  }
  input.seek(position.input);
  return iterators;
}

}  // namespace brigade::data::internal
