#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <tuple>
#include <vector>

#include "brigade/data/core/structure.h"
#include "brigade/input/labeled_example.h"  // how batches of tensors are split

namespace brigade::input {

/// The sizes of the per-replica batches when `total` examples are split over `parts` replicas:
/// sizes differ by at most one, larger ones first, so 7 over 3 is {3, 2, 2} and 2 over 4 is {1, 1,
/// 0, 0}. Every strategy uses this rule. Throws kInvalidArgument if `total` is negative or `parts`
/// less than 1.
std::vector<std::int64_t> split_sizes(std::int64_t total, std::int64_t parts);

namespace internal {

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// Whether a batch is sliced by its own `Structure`; otherwise lists are sliced by element, and
/// tuples, pairs and structs part by part.
template <class B>
inline constexpr bool kHasOwnSlices = std::same_as<typename data::Structure<B>::Batch, B>;

template <class B>
constexpr bool is_splittable() {
  if constexpr (kHasOwnSlices<B> || kIsList<B>) {
    return true;
  } else if constexpr (data::internal::HasParts<B>) {
    return data::internal::with_indices<B>(
        [](auto... i) { return (is_splittable<data::internal::Part<B, i>>() && ...); });
  } else {
    return false;
  }
}

}  // namespace internal

/// A batch type that can be split: at::Tensor, LabeledBatch, a list, tuples and pairs of these (as
/// from `zip` and `enumerate`), your own type that names such fields (see `data::HasFields`), or
/// one that its `data::Structure` stacks to the type itself. Parts must have the same number of
/// examples.
template <class B>
concept Splittable = internal::is_splittable<B>();

/// The number of examples in a batch. Throws kInvalidArgument for an invalid batch: a tensor
/// without dimensions, parts of different sizes.
template <Splittable B>
std::int64_t examples_in(const B& batch) {
  if constexpr (internal::kHasOwnSlices<B>) {
    return data::Structure<B>::size(batch);
  } else if constexpr (internal::kIsList<B>) {
    return static_cast<std::int64_t>(batch.size());
  } else {
    return std::apply(
        [](const auto&... part) { return data::internal::size_of_parts({examples_in(part)...}); },
        data::internal::parts_of(batch));
  }
}

/// Examples [begin, end) of a batch; tensors are views. 0 <= begin <= end <= examples_in(batch).
template <Splittable B>
B examples_between(const B& batch, std::int64_t begin, std::int64_t end) {
  if constexpr (internal::kHasOwnSlices<B>) {
    return data::Structure<B>::slice(batch, begin, end);
  } else if constexpr (internal::kIsList<B>) {
    return B(batch.begin() + begin, batch.begin() + end);
  } else {
    const auto parts = data::internal::parts_of(batch);
    return data::internal::from_parts<B>(
        [&](auto i) { return examples_between(std::get<i>(parts), begin, end); });
  }
}

/// Splits a batch by `split_sizes`, in order, into views; no tensor is copied. Parts without
/// examples keep dtype and shape, with a first dimension of 0. (libtorch's `at::split` takes the
/// size of a part, not their number.)
template <Splittable B>
std::vector<B> split_batch(const B& batch, std::int64_t parts) {
  std::vector<B> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t size : split_sizes(examples_in(batch), parts)) {
    pieces.push_back(examples_between(batch, begin, begin + size));
    begin += size;
  }
  return pieces;
}

}  // namespace brigade::input
