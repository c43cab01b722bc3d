#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace brigade::comm {

/// Some rows of a table [rows, ...], as a gradient that is zero elsewhere.
struct Rows {
  at::Tensor indices;  ///< int64 [n], ascending, each once
  at::Tensor values;   ///< [n, ...], contiguous, on the same device
};

/// Adds the values [n, ...] of equal indices (int64 [n], any order), in their order. On CPU half
/// and bfloat16 are added in float32 and rounded once, and the bits depend on the order alone.
Rows sum_by_index(const at::Tensor& indices, const at::Tensor& values);

/// The sum of gradients of one table, on one device: each row is added by the ReductionTree of the
/// number of parts, at least one. Undefined parts add nothing. On CPU half and bfloat16 are added
/// in float32 and rounded once, and the bits are those of `add_by_tree` of the dense gradients.
Rows sum_rows(std::span<const Rows> parts);

/// `rows` of a table of these sizes as a sparse tensor, coalesced; shares the memory.
at::Tensor to_sparse(const Rows& rows, at::IntArrayRef sizes);

/// Whether `gradient` is defined and sparse along its first dimension alone, so that `rows_of`
/// takes it.
bool has_rows(const at::Tensor& gradient);

/// The inverse of `to_sparse`, also for tensors that are not coalesced, such as the gradient of
/// `torch::nn::Embedding` with sparse(true).
Rows rows_of(const at::Tensor& sparse);

}  // namespace brigade::comm
