#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "brigade/input/tensor_structure.h"

namespace brigade::input {

struct LabeledBatch;

/// A training example: its features and the class it belongs to.
///
/// Thread-safety: a value; the tensor's memory may be shared with the whole data set: never write
/// to it in place.
struct LabeledExample {
  using Batch = LabeledBatch;

  at::Tensor features;
  std::int64_t label = 0;

  static constexpr auto fields = std::tuple{&LabeledExample::features, &LabeledExample::label};
};

/// A batch of labeled examples.
///
/// Thread-safety: as `LabeledExample`.
struct LabeledBatch {
  using Batch = LabeledBatch;  ///< a batch of batches: features [M, N, ...], labels [M, N]
  using Element = LabeledExample;

  at::Tensor features;  ///< [N, ...]
  at::Tensor labels;    ///< int64 [N]

  static constexpr auto fields = std::tuple{&LabeledBatch::features, &LabeledBatch::labels};
};

}  // namespace brigade::input

namespace brigade::data {

/// The features are padded.
///
/// Thread-safety: pure functions.
template <>
struct Padding<input::LabeledExample> : Padding<at::Tensor> {
  static input::LabeledBatch stack(std::vector<input::LabeledExample>&& elements,
                                   const Options& options) {
    return {Padding<at::Tensor>::stack(internal::take_parts<0>(elements), options),
            internal::stack_numbers(internal::take_parts<1>(elements))};
  }
};

}  // namespace brigade::data
