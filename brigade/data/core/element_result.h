#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "brigade/data/core/node.h"

namespace brigade::data {

/// What a call of `next()` came to: an element, the error in its place, or the end. Lets elements
/// that failed travel through buffers and threads to where they are due.
///
/// Thread-safety: a value.
template <class T>
struct ElementResult {
  std::optional<T> element;
  std::exception_ptr error;

  bool is_end() const { return !element && !error; }
  /// The element, or nothing at the end. Throws the error if it is one.
  std::optional<T> take() && {
    if (error) std::rethrow_exception(error);
    return std::move(element);
  }
};

/// Calls `next()` and keeps what it throws.
template <class T>
ElementResult<T> result_of_next(IteratorBase<T>& iterator) {
  try {
    return {iterator.next(), nullptr};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

}  // namespace brigade::data
