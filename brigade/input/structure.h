#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "brigade/data/structure.h"
#include "brigade/input/example.h"

namespace brigade::data {

/// Tensors of one shape are stacked into one with a new first dimension; batches come apart as
/// views.
///
/// Thread-safety: pure functions.
template <>
struct Structure<at::Tensor> {
  using Batch = at::Tensor;
  static Batch stack(std::vector<at::Tensor>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// Features are stacked, labels become an int64 tensor.
///
/// Thread-safety: pure functions.
template <>
struct Structure<input::LabeledExample> {
  using Batch = input::LabeledBatch;
  static Batch stack(std::vector<input::LabeledExample>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// Batches of batches: features [M, N, ...], labels [M, N]. `size` and `slice` see the first
/// dimension, as for a plain batch, so code that is given only batches uses this one.
///
/// Thread-safety: pure functions.
template <>
struct Structure<input::LabeledBatch> {
  using Batch = input::LabeledBatch;
  static Batch stack(std::vector<input::LabeledBatch>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

}  // namespace brigade::data
