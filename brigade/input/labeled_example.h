#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "brigade/data/core/byte_size.h"

namespace brigade::input {

/// A training example: its features and the class it belongs to.
///
/// Thread-safety: a value; the tensor's memory may be shared with the whole data set: never write
/// to it in place.
struct LabeledExample {
  at::Tensor features;
  std::int64_t label = 0;
};

/// A batch of labeled examples.
///
/// Thread-safety: as `LabeledExample`.
struct LabeledBatch {
  at::Tensor features;  ///< [N, ...]
  at::Tensor labels;    ///< int64 [N]
};

}  // namespace brigade::input

namespace brigade::data {

/// Views count with their full size.
template <>
struct ByteSize<at::Tensor> {
  static std::uint64_t of(const at::Tensor& tensor) {
    return sizeof tensor + (tensor.defined() ? tensor.nbytes() : 0);
  }
};
template <>
struct ByteSize<input::LabeledExample> {
  static std::uint64_t of(const input::LabeledExample& example) {
    return sizeof example.label + ByteSize<at::Tensor>::of(example.features);
  }
};
template <>
struct ByteSize<input::LabeledBatch> {
  static std::uint64_t of(const input::LabeledBatch& batch) {
    return ByteSize<at::Tensor>::of(batch.features) + ByteSize<at::Tensor>::of(batch.labels);
  }
};

}  // namespace brigade::data
