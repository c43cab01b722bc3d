#pragma once

#include <ATen/core/Tensor.h>
#include <nccl.h>

#include <span>
#include <string_view>

#include "brigade/comm/communicator.h"

/// Translates dtypes and operations to NCCL's. For the sources that include nccl.h.
namespace brigade::comm {

/// Throws kUnavailable with NCCL's text unless the call succeeded or is in progress.
void check_nccl(ncclResult_t result, std::string_view call);

/// Whether NCCL supports the dtype.
bool has_nccl_dtype(const at::Tensor& tensor);
/// Throws kInvalidArgument for a dtype that NCCL does not support.
ncclDataType_t nccl_dtype(const at::Tensor& tensor);
ncclRedOp_t nccl_operation(ReduceOp op);

/// Whether all are on a GPU, dense and without overlap, in any order of dimensions.
bool are_dense_on_cuda(std::span<const at::Tensor> tensors);

}  // namespace brigade::comm
