#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace brigade::input {

/// The options of a new tensor that joins tensors with these options to a batch: in pinned memory
/// if batches are stacked there (`data::BatchMemoryScope`). libtorch recycles pinned memory, a
/// block once the copies to GPUs that read it are done.
at::TensorOptions batch_options(const at::Tensor& part);

/// Row `index` of `[N, ...]` as a view, without autograd, which takes a fraction of a microsecond.
/// `index` must be in range.
at::Tensor row_of(const at::Tensor& rows, std::int64_t index);

/// Rows [begin, end) as a view, without autograd. Throws kInvalidArgument unless 0 <= begin <= end
/// <= N.
at::Tensor rows_between(const at::Tensor& rows, std::int64_t begin, std::int64_t end);

/// Stacks N tensors of one shape and dtype to a tensor `[N, ...]`. Contiguous CPU tensors, such as
/// the rows of a data set, are copied directly. Throws kInvalidArgument if there are no tensors or
/// if shapes or dtypes differ, naming the first tensor that differs.
at::Tensor stack_rows(const std::vector<at::Tensor>& rows);

/// Concatenates tensors `[N, ...]` along the first dimension. Throws kInvalidArgument if there are
/// no tensors or if dtypes or the other dimensions differ, naming the first tensor that differs.
at::Tensor join_rows(const std::vector<at::Tensor>& parts);

/// N, the size of the first dimension. Throws kInvalidArgument for a scalar.
std::int64_t row_count(const at::Tensor& rows);

}  // namespace brigade::input
