#pragma once

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/data/structure.h"

namespace brigade::input {

/// How `total` examples are shared out over `parts` replicas: sizes differ by at most one, the
/// larger ones first, so 7 over 3 is {3, 2, 2} and 2 over 4 is {1, 1, 0, 0}. The one rule for every
/// strategy. Throws kInvalidArgument if `total` is negative or `parts` less than 1.
std::vector<std::int64_t> split_sizes(std::int64_t total, std::int64_t parts);

/// A batch type that can be cut: at::Tensor, LabeledBatch, or one of yours with a `Structure`.
template <class B>
concept Splittable = std::same_as<typename data::Structure<B>::Batch, B>;

/// The batch cut by `split_sizes`, in order: views, nothing is copied. Parts without examples keep
/// dtype and shape, with a first dimension of 0. Call it as `input::split`: for a bare tensor, an
/// unqualified `split` is libtorch's, which takes the size of a part.
template <Splittable B>
std::vector<B> split(const B& batch, std::int64_t parts) {
  std::vector<B> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t size : split_sizes(data::Structure<B>::size(batch), parts)) {
    pieces.push_back(data::Structure<B>::slice(batch, begin, begin + size));
    begin += size;
  }
  return pieces;
}

/// The same for plain lists of elements.
template <class T>
std::vector<std::vector<T>> split(const std::vector<T>& batch, std::int64_t parts) {
  std::vector<std::vector<T>> pieces;
  auto begin = batch.begin();
  for (const std::int64_t size : split_sizes(static_cast<std::int64_t>(batch.size()), parts)) {
    pieces.emplace_back(begin, begin + size);
    begin += size;
  }
  return pieces;
}

}  // namespace brigade::input
