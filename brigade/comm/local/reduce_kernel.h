#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// The dtype in which values of `dtype` are added: float32 for half and bfloat16, whose own sums
/// lose digits and overflow; otherwise `dtype` itself.
at::ScalarType accumulation_dtype(at::ScalarType dtype);

/// `value` in its accumulation dtype: a copy of half and bfloat16, otherwise `value` itself.
at::Tensor to_accumulation_dtype(const at::Tensor& value);

/// The tensors of a sum or mean for a transport that adds in the tensors' own dtype, or in several
/// steps. Half and bfloat16 tensors are replaced by float32 copies, so that results are rounded
/// once, in `copy_back`. Other tensors, and those of other operations, are the caller's.
///
/// Thread-safety: the caller's thread.
class AccumulationTensors {
 public:
  AccumulationTensors(std::span<const at::Tensor> tensors, ReduceOp op);

  std::span<const at::Tensor> tensors() const {
    return copies_.empty() ? originals_ : std::span<const at::Tensor>(copies_);
  }
  /// Writes the results to the half and bfloat16 tensors.
  void copy_back() const;

 private:
  const std::span<const at::Tensor> originals_;
  std::vector<at::Tensor> copies_;  // empty: none is needed
};

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
