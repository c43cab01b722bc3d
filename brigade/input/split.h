#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/structure.h"
#include "brigade/data/transforms/batch_structure.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// The sizes of the per-replica batches when `total` examples are split over `parts` replicas:
/// sizes differ by at most one, larger ones first, so 7 over 3 is {3, 2, 2} and 2 over 4 is {1, 1,
/// 0, 0}. Every strategy uses this rule. Throws kInvalidArgument if `total` is negative or `parts`
/// less than 1.
std::vector<std::int64_t> split_sizes(std::int64_t total, std::int64_t parts);

/// How a batch is counted and sliced, for batch types that have it. Lists are sliced by element;
/// tuples, pairs and lists of tensors part by part, and the parts must have the same number of
/// examples.
///
/// Thread-safety: pure functions.
template <class B>
struct BatchCut {};
template <class B>
requires std::same_as<typename data::Structure<B>::Batch, B>
struct BatchCut<B> {
  static std::int64_t size(const B& batch) { return data::Structure<B>::size(batch); }
  static B slice(const B& batch, std::int64_t begin, std::int64_t end) {
    return data::Structure<B>::slice(batch, begin, end);
  }
};
template <class T>
struct BatchCut<std::vector<T>> {
  using Batch = std::vector<T>;
  static std::int64_t size(const Batch& batch) { return static_cast<std::int64_t>(batch.size()); }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return Batch(batch.begin() + begin, batch.begin() + end);
  }
};
/// A list of tensors is sliced like a tuple of tensors, each along its first dimension.
template <>
struct BatchCut<std::vector<at::Tensor>> {
  using Batch = std::vector<at::Tensor>;
  static std::int64_t size(const Batch& batch) { return data::Structure<Batch>::size(batch); }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return data::Structure<Batch>::slice(batch, begin, end);
  }
};
template <class... B>
struct BatchCut<std::tuple<B...>> {
  using Batch = std::tuple<B...>;
  static std::int64_t size(const Batch& batch) {
    return std::apply(
        [](const auto&... part) {
          return data::internal::size_of_parts({BatchCut<B>::size(part)...});
        },
        batch);
  }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return std::apply(
        [&](const auto&... part) { return Batch(BatchCut<B>::slice(part, begin, end)...); }, batch);
  }
};
template <class A, class B>
struct BatchCut<std::pair<A, B>> {
  using Batch = std::pair<A, B>;
  static std::int64_t size(const Batch& batch) {
    return data::internal::size_of_parts(
        {BatchCut<A>::size(batch.first), BatchCut<B>::size(batch.second)});
  }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return {BatchCut<A>::slice(batch.first, begin, end),
            BatchCut<B>::slice(batch.second, begin, end)};
  }
};

/// A batch type that can be split: at::Tensor, LabeledBatch, a list, tuples and pairs of these (as
/// from `zip` and `enumerate`), or your own type with a `Structure`.
template <class B>
concept Splittable = requires(const B& batch) {
  { BatchCut<B>::size(batch) } -> std::same_as<std::int64_t>;
};

/// The number of examples in a batch. Throws kInvalidArgument for an invalid batch: a tensor
/// without dimensions, parts of different sizes.
template <Splittable B>
std::int64_t examples_in(const B& batch) {
  return BatchCut<B>::size(batch);
}

/// Examples [begin, end) of a batch; tensors are views. 0 <= begin <= end <= examples_in(batch).
template <Splittable B>
B examples_between(const B& batch, std::int64_t begin, std::int64_t end) {
  return BatchCut<B>::slice(batch, begin, end);
}

/// Splits a batch by `split_sizes`, in order, into views; no tensor is copied. Parts without
/// examples keep dtype and shape, with a first dimension of 0. Call it as `input::split`: for a
/// tensor, an unqualified `split` is libtorch's, which takes the size of a part.
template <Splittable B>
std::vector<B> split(const B& batch, std::int64_t parts) {
  std::vector<B> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t size : split_sizes(examples_in(batch), parts)) {
    pieces.push_back(examples_between(batch, begin, begin + size));
    begin += size;
  }
  return pieces;
}

}  // namespace brigade::input
