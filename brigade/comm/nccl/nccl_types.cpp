#include "brigade/comm/nccl/nccl_types.h"

#include <algorithm>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

std::optional<ncclDataType_t> find_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    case at::kChar:
      return ncclInt8;
    case at::kByte:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

}  // namespace

void check_nccl(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw Error(ErrorCode::kUnavailable,
              base::str_cat("NCCL: ", call, " failed: ", ncclGetErrorString(result), "."));
}

bool has_nccl_dtype(const at::Tensor& tensor) {
  return find_dtype(tensor.scalar_type()).has_value();
}

ncclDataType_t nccl_dtype(const at::Tensor& tensor) {
  if (const auto dtype = find_dtype(tensor.scalar_type())) return *dtype;
  throw Error(ErrorCode::kInvalidArgument, base::str_cat("NCCL cannot send tensors of dtype ",
                                                         c10::toString(tensor.scalar_type()), "."));
}

ncclRedOp_t nccl_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMean:
      return ncclAvg;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMin:
      return ncclMin;
  }
  return ncclSum;
}

bool are_dense_on_cuda(std::span<const at::Tensor> tensors) {
  return !tensors.empty() && std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
    return tensor.is_cuda() && tensor.is_non_overlapping_and_dense();
  });
}

}  // namespace brigade::comm
