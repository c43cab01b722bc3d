#pragma once

#include <ATen/core/Tensor.h>
#include <nccl.h>

#include <span>
#include <string_view>

#include "brigade/comm/communicator.h"

/// NCCL's names for ours. For the sources that include nccl.h.
namespace brigade::comm {

/// Throws kUnavailable with NCCL's text unless the call was successful, or is under way.
void check_nccl(ncclResult_t result, std::string_view call);

/// Whether NCCL knows the dtype.
bool has_nccl_dtype(const at::Tensor& tensor);
/// Throws kInvalidArgument for a dtype that NCCL does not know.
ncclDataType_t nccl_dtype(const at::Tensor& tensor);
ncclRedOp_t nccl_operation(ReduceOp op);

/// Whether all lie on a card, one element behind the other in whatever order.
bool are_dense_on_cuda(std::span<const at::Tensor> tensors);

}  // namespace brigade::comm
