#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace brigade::input {

/// Row `index` of `[N, ...]` as a view, without autograd's bookkeeping: a fraction of a
/// microsecond. `index` must be in range.
at::Tensor row_of(const at::Tensor& rows, std::int64_t index);

/// Rows [begin, end) as a view, likewise. Throws kInvalidArgument unless 0 <= begin <= end <= N.
at::Tensor rows_between(const at::Tensor& rows, std::int64_t begin, std::int64_t end);

/// One tensor `[N, ...]` of N tensors of one shape and dtype. Contiguous CPU tensors, such as the
/// rows of a data set, are copied straight into place. Throws kInvalidArgument, naming the first
/// that differs, if shapes or dtypes do, or if there are none.
at::Tensor stack_rows(const std::vector<at::Tensor>& rows);

/// Tensors `[N, ...]` behind one another, as one. Throws kInvalidArgument, naming the first that
/// differs, if dtypes or shapes behind the first dimension do, or if there are none.
at::Tensor join_rows(const std::vector<at::Tensor>& parts);

/// N, the size of the first dimension. Throws kInvalidArgument for a scalar.
std::int64_t row_count(const at::Tensor& rows);

}  // namespace brigade::input
