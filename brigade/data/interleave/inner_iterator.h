#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/cancel_look.h"
#include "brigade/data/interleave/inner_options.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/transforms/map.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/noted_input.h"
#include "brigade/data/core/outcome.h"

namespace brigade::data::internal {

/// A walk over the dataset made from one element of an input, or the reason why there is none.
///
/// Thread-safety: one thread at a time.
template <class U>
struct InnerWalk {
  InputPlace element;                         // that the dataset was made from
  NodePtr<U> node;                            // before its iterator, so that it outlives it
  std::unique_ptr<IteratorBase<U>> iterator;  // none if there was an error
  std::exception_ptr error;

  bool is_open() const { return iterator != nullptr || error != nullptr; }
  void close() {
    iterator = nullptr;
    node = nullptr;
    error = nullptr;
  }
};

/// Throws the exception being handled again as an `Error` that names the step and the element from
/// which the dataset was made.
[[noreturn]] void rethrow_in_inner(const std::string& where, std::uint64_t epoch,
                                   std::uint64_t element);

/// Throws kInvalidArgument: a dataset made from `element` has fewer elements than when it was
/// saved.
[[noreturn]] void throw_inner_too_short(const std::string& where, std::uint64_t element);

/// Makes a dataset of each element, for one walk over flat_map or interleave.
///
/// Thread-safety: const calls from any number of threads.
template <class T, class U>
struct InnerMaker {
  std::function<NodePtr<U>(T&&)> make;
  std::string where;  // for messages
  IteratorOptions options;

  /// Errors of the element, the function and the first look into the dataset become the walk's.
  InnerWalk<U> open(InputPlace at, Outcome<T> element) const {
    InnerWalk<U> walk{std::move(at), nullptr, nullptr, std::move(element.error)};
    if (walk.error) return walk;
    try {
      open_in(walk, std::move(*element.element));
    } catch (...) {
      walk.close();
      walk.error = std::current_exception();
    }
    return walk;
  }
  /// The walk's next element; errors say where they come from.
  std::optional<U> next(InnerWalk<U>& walk) const {
    try {
      return walk.iterator->next();
    } catch (...) {
      rethrow_in_inner(where, options.epoch, walk.element.place);
    }
  }
  /// Whether what is thrown now belongs to no element: the job gave up waiting.
  bool is_cancelled() const { return options.cancel && options.cancel->is_cancelled(); }

 private:
  void open_in(InnerWalk<U>& walk, T&& element) const {
    try {
      walk.node = make(std::move(element));
      walk.iterator = walk.node->iterator(options_of_inner(options, walk.element.place));
    } catch (...) {
      rethrow_at_element(where, options.epoch, walk.element.place);
    }
  }
};

/// The walk at a saved position, with its dataset made anew: the input stands behind the element
/// afterwards. One that could not be opened and of which nothing was delivered keeps its error.
template <class T, class U>
InnerWalk<U> reopen(NotedInput<T>& input, const InnerMaker<T, U>& maker,
                    const InnerPosition& position) {
  input.go_to(position.element);
  auto element = input.next();
  if (element.outcome.is_end()) throw_noted_input_too_short(position.element.place);
  // Told from the saved note, not from one that the input may have taken meanwhile.
  InnerWalk<U> walk = maker.open(position.element, std::move(element.outcome));
  const bool is_at_start = !position.state && position.ahead == 0;
  if (is_at_start) return walk;
  if (walk.error) std::rethrow_exception(walk.error);
  if (position.state) walk.iterator->restore(*position.state);
  if (skip_and_look(*walk.iterator, position.ahead, maker.options.cancel) != position.ahead) {
    throw_inner_too_short(maker.where, walk.element.place);
  }
  return walk;
}

/// One walk a slot of the cycle, those of empty slots not open; the input goes on behind them.
template <class T, class U>
std::vector<InnerWalk<U>> reopen_all(NotedInput<T>& input, const InnerMaker<T, U>& maker,
                                     const InterleavePosition& position) {
  std::vector<InnerWalk<U>> walks(position.slots.size());
  for (const std::size_t slot : position.slots_by_element()) {
    walks[slot] = reopen(input, maker, *position.slots[slot]);
  }
  input.go_to(position.input);
  return walks;
}

}  // namespace brigade::data::internal
