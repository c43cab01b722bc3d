#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/transforms/padding.h"

namespace brigade::data {

/// How `padded_batch` and `bucket_by_sequence_length` pad tensors to one shape.
struct TensorPadding {
  /// The size of each dimension, -1 for the largest in the batch. Unset: -1 for all dimensions.
  std::optional<std::vector<std::int64_t>> shape{};
  /// The padding value.
  at::Scalar value = 0;
  /// Where `shape` is unset, the size of the first dimension, if not the largest in the batch.
  std::optional<std::int64_t> length{};
};

/// Tensors of one dtype and number of dimensions, each padded at the end of every dimension that
/// needs it.
///
/// Thread-safety: pure functions.
template <>
struct Padding<at::Tensor> {
  using Options = TensorPadding;

  static void check(const Options& options);
  static std::string describe(const Options& options);
  static Options with_length(const Options& options, std::int64_t length);
  static at::Tensor stack(std::vector<at::Tensor>&& elements, const Options& options);
};

}  // namespace brigade::data
