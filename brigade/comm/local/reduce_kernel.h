#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Adds the elements [begin, end) of several flat inputs, in the order given, into
/// `output[output_begin ..)`. Undefined inputs count as zeros. All are CPU tensors of the same
/// dtype, contiguous; float and double run vectorized, other dtypes through libtorch. Half and
/// bfloat16 are added in float32 and rounded once; not at all into an output of float32. Bits
/// depend on the order of inputs alone, never on how a range is cut.
void add_in_order(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                  const at::Tensor& output, std::int64_t output_begin);

/// Combines `inputs` (same shape and dtype, any device, all on one) in order with `op` into a new
/// tensor. Sums and means of half and bfloat16 are made in float32 and rounded once.
at::Tensor combine_in_order(std::span<const at::Tensor> inputs, ReduceOp op);

/// Combines the elements [begin, end) of flat CPU tensors (same dtype and size) in order with `op`
/// into `output`, which has end - begin elements. The same bits as `combine_in_order`.
void combine_range(std::span<const at::Tensor> inputs, ReduceOp op, std::int64_t begin,
                   std::int64_t end, const at::Tensor& output);

}  // namespace brigade::comm
