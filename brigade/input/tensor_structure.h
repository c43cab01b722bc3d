#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "brigade/data/core/structure.h"
#include "brigade/data/transforms/batch_structure.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_padding.h"

namespace brigade::data {

/// Tensors of one shape are stacked along a new first dimension; batches are unbatched to views.
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

/// Batches of batches: features [M, N, ...], labels [M, N]. `size` and `slice` use the first
/// dimension, as for a plain batch.
///
/// Thread-safety: pure functions.
template <>
struct Structure<input::LabeledBatch> {
  using Batch = input::LabeledBatch;
  static Batch stack(std::vector<input::LabeledBatch>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// A list of tensors is one element of several parts, as a tuple is: lists of one length are
/// stacked part by part, and a batch has as many elements as the first dimension of each of its
/// tensors.
///
/// Thread-safety: pure functions. Throws kInvalidArgument for lists of different lengths or none,
/// and for parts with different numbers of elements, naming both.
template <>
struct Structure<std::vector<at::Tensor>> {
  using Batch = std::vector<at::Tensor>;
  static Batch stack(std::vector<std::vector<at::Tensor>>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// Rows and parts are views of the batch; batches are joined by copying.
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<at::Tensor> {
  using Element = at::Tensor;
  using Batch = at::Tensor;
  static std::int64_t size(const Batch& batch);
  static at::Tensor element(Batch& batch, std::int64_t index);
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end);
  static Batch concatenate(std::vector<Batch>&& parts);
};

/// Lists are unbatched to lists of rows, part by part.
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<std::vector<at::Tensor>> {
  using Element = std::vector<at::Tensor>;
  using Batch = std::vector<at::Tensor>;
  static std::int64_t size(const Batch& batch);
  static Element element(Batch& batch, std::int64_t index);
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end);
  static Batch concatenate(std::vector<Batch>&& parts);
};

/// Examples whose features are views of the batch. `size` throws kInvalidArgument unless labels are
/// int64 [N].
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<input::LabeledBatch> {
  using Element = input::LabeledExample;
  using Batch = input::LabeledBatch;
  static std::int64_t size(const Batch& batch);
  static input::LabeledExample element(Batch& batch, std::int64_t index);
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end);
  static Batch concatenate(std::vector<Batch>&& parts);
};

}  // namespace brigade::data
