#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "brigade/data/core/node.h"

namespace brigade::data {

/// The result of a call of `next()`: an element, an error, or the end. Lets the errors of elements
/// pass through buffers and threads, in the order of the elements.
///
/// Thread-safety: a value.
template <class T>
struct ElementResult {
  std::optional<T> element;
  std::exception_ptr error;

  bool is_end() const { return !element && !error; }
  /// The element, or `std::nullopt` at the end. Throws the error if there is one.
  std::optional<T> take() && {
    if (error) std::rethrow_exception(error);
    return std::move(element);
  }
};

/// Calls `next()` and catches what it throws.
template <class T>
ElementResult<T> result_of_next(IteratorBase<T>& iterator) {
  try {
    return {iterator.next(), nullptr};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

}  // namespace brigade::data
