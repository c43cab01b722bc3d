#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace brigade::data {

/// How elements of type T come together into batches, and how batches come apart again: the only
/// way in which Brigade looks inside an element. Specialise it for a type of yours whose batch is
/// more than a list (tensors do: `input/tensor_structure.h`); a specialisation has the same four
/// members.
///
/// Thread-safety: pure functions.
template <class T>
struct Structure {
  using Batch = std::vector<T>;

  /// One batch of the elements, in their order. There is at least one.
  static Batch stack(std::vector<T>&& elements) { return std::move(elements); }
  /// Elements in the batch.
  static std::int64_t size(const Batch& batch) { return static_cast<std::int64_t>(batch.size()); }
  /// Elements [begin, end) of the batch, which may be none: 0 <= begin <= end <= size.
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return Batch(batch.begin() + begin, batch.begin() + end);
  }
};

}  // namespace brigade::data
