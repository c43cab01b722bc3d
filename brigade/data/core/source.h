#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/indexed_source.h"
#include "brigade/data/dataset.h"

namespace brigade::data {

/// A dataset of `size` elements. Each is made by `element(index)` when it is read; `element` must
/// be a pure function that several threads may call. `name` is the source's name in messages.
/// Throws kInvalidArgument if `size` is negative.
template <class T>
Dataset<T> from_indexed(std::int64_t size, std::function<T(std::int64_t)> element,
                        std::string name) {
  internal::check_source_size(size, name);
  return Dataset<T>(
      std::make_shared<const internal::IndexedNode<T>>(size, std::move(element), std::move(name)));
}

/// A dataset of the elements of a vector; iterators return copies.
template <class T>
Dataset<T> from_elements(std::vector<T> elements, std::string name = "from_elements") {
  const auto size = static_cast<std::int64_t>(elements.size());
  auto shared = std::make_shared<const std::vector<T>>(std::move(elements));
  return from_indexed<T>(
      size, [shared](std::int64_t index) { return (*shared)[static_cast<std::size_t>(index)]; },
      std::move(name));
}

/// The numbers 0, 1, ... size - 1. Throws kInvalidArgument if `size` is negative. TensorFlow
/// counterpart: Dataset.range(size).
Dataset<std::int64_t> range(std::int64_t size);

/// The numbers start, start + step, ... below `stop`, or above it if `step` is negative:
/// `range(5, -2, -2)` is 5, 3, 1, -1. Empty if `stop` is on the other side of `start`.
/// Throws kInvalidArgument if `step` is 0 or there are more than 2^63 - 1 of them. TensorFlow
/// counterpart: Dataset.range(start, stop, step).
Dataset<std::int64_t> range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);

}  // namespace brigade::data
