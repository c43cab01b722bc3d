#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/reduction_tree.h"

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

/// Adds the elements [begin, end) of several flat inputs by `tree`, of which input i is part i,
/// into `output[output_begin ..)`. Undefined inputs add nothing; if all are undefined, the result
/// is -0.0, to which any value can be added without changing it. All are contiguous CPU tensors of
/// the same dtype; float and double are vectorized, and added block by block in the first-level
/// cache; other dtypes use libtorch. Half and bfloat16 are added in float32 and rounded once, or
/// not at all if the output is float32. Bits depend only on the inputs and the tree, never on how a
/// range is split.
void add_by_tree(std::span<const at::Tensor> inputs, const ReductionTree& tree, std::int64_t begin,
                 std::int64_t end, const at::Tensor& output, std::int64_t output_begin);

/// The same for inputs that are the leaves of a tree, at least one.
void add_by_tree(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                 const at::Tensor& output, std::int64_t output_begin);

/// Combines `inputs` (same shape, dtype and device), the parts of `tree`, with `op` into a new
/// tensor. Sums and means of half and bfloat16 are computed in float32 and rounded once; a mean is
/// the sum divided by the number of leaves. Undefined inputs add nothing; if all are undefined, so
/// is the result.
at::Tensor combine_by_tree(std::span<const at::Tensor> inputs, const ReductionTree& tree,
                           ReduceOp op);

/// The same for inputs that are the leaves of a tree, at least one.
at::Tensor combine_by_tree(std::span<const at::Tensor> inputs, ReduceOp op);

/// Combines the elements [begin, end) of flat CPU tensors (same dtype and size), the parts of
/// `tree`, with `op` into `output`, which has end - begin elements. The same bits as
/// `combine_by_tree`.
void combine_range(std::span<const at::Tensor> inputs, const ReductionTree& tree, ReduceOp op,
                   std::int64_t begin, std::int64_t end, const at::Tensor& output);

}  // namespace brigade::comm
