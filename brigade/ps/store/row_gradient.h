#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"

namespace brigade::ps {

/// The gradient of some rows of a variable; that of all other rows is zero, and they do not change.
struct RowGradient {
  std::string name;
  at::Tensor indices;  ///< int64 [n], ascending, each once
  at::Tensor values;   ///< [n, ...]: of the variable's dtype, or as `may_push` allows
};

/// Rows of a variable.
struct RowQuery {
  std::string name;
  at::Tensor indices;  ///< int64 [n]; any order, also repeated
};

/// A gradient of one variable, of all rows or of some.
struct VariableGradient {
  at::Tensor values;
  at::Tensor indices = {};  ///< as RowGradient's; undefined: `values` has the variable's shape

  bool is_of_rows() const { return indices.defined(); }
};

/// Whether a gradient of this dtype may be pushed for a variable of `variable`'s: the same, or
/// bfloat16 for one of float32 or float64.
bool may_push(at::ScalarType dtype, at::ScalarType variable);

/// The sum of gradients of one variable of `dtype`, by the comm::ReductionTree of their number; at
/// least one. Narrower ones are widened before they are added; for a variable of half or bfloat16
/// they are added in float32 and rounded once. If all are of rows, so is the sum; a single gradient
/// of `dtype` is returned as it is.
VariableGradient sum_by_tree(std::span<const VariableGradient> gradients, at::ScalarType dtype);

/// Throws kInvalidArgument, saying what is wrong, unless `gradient` is one of rows of a variable of
/// this shape and dtype: its indices int64 [n], ascending, each once, of rows that exist; its
/// values dense, on the CPU, and one row for each, of a dtype that `may_push` allows.
void check_rows(const RowGradient& gradient, at::IntArrayRef sizes, at::ScalarType dtype);
/// Throws kInvalidArgument unless these are rows of a variable of this shape.
void check_rows(const RowQuery& query, at::IntArrayRef sizes);

/// Copies that nobody else changes.
std::vector<RowGradient> copies_of(std::span<const RowGradient> gradients);

}  // namespace brigade::ps
