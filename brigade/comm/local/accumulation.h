#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace brigade::comm
