#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Adds the elements [begin, end) of several flat inputs, in the given order, into
/// `output[output_begin ..)`. Undefined inputs count as zeros. All are contiguous CPU tensors of
/// the same dtype; float and double are vectorized, other dtypes use libtorch. Half and bfloat16
/// are added in float32 and rounded once, or not at all if the output is float32. Bits depend only
/// on the order of inputs, never on how a range is split.
void add_in_order(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                  const at::Tensor& output, std::int64_t output_begin);

/// Combines `inputs` (same shape, dtype and device) in order with `op` into a new tensor. Sums and
/// means of half and bfloat16 are computed in float32 and rounded once.
at::Tensor combine_in_order(std::span<const at::Tensor> inputs, ReduceOp op);

/// Combines the elements [begin, end) of flat CPU tensors (same dtype and size) in order with `op`
/// into `output`, which has end - begin elements. The same bits as `combine_in_order`.
void combine_range(std::span<const at::Tensor> inputs, ReduceOp op, std::int64_t begin,
                   std::int64_t end, const at::Tensor& output);

}  // namespace brigade::comm
