#include "brigade/comm/nccl/nccl_calls.h"

#include <c10/cuda/CUDAGuard.h>

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

ncclResult_t start_on_card(const CollectiveCall& call, const at::Tensor& tensor,
                           ncclComm_t communicator, cudaStream_t stream) {
  void* const data = tensor.data_ptr();
  const auto count = static_cast<std::size_t>(tensor.numel());
  const ncclDataType_t dtype = nccl_dtype(tensor);
  switch (call.kind) {
    case Collective::kAllReduce:
      return ncclAllReduce(data, data, count, dtype, nccl_operation(call.op), communicator, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(data, data, count, dtype, call.root, communicator, stream);
    default:
      throw Error(ErrorCode::kUnimplemented, base::str_cat(call.name(), " is not made by NCCL."));
  }
}

}  // namespace

void check_nccl(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw Error(ErrorCode::kUnavailable,
              base::str_cat("NCCL: ", call, " failed: ", ncclGetErrorString(result), "."));
}

NcclCallGroup::NcclCallGroup() {
  check_nccl(ncclGroupStart(), "ncclGroupStart");
}

NcclCallGroup::~NcclCallGroup() {
  if (!has_ended_) ncclGroupEnd();
}

void NcclCallGroup::add(ncclResult_t result) {
  if (first_failure_ == ncclSuccess && result != ncclInProgress) first_failure_ = result;
}

void NcclCallGroup::end(std::string_view calls) {
  has_ended_ = true;
  const ncclResult_t result = ncclGroupEnd();
  check_nccl(first_failure_, calls);
  check_nccl(result, calls);
}

bool nccl_takes(const CollectiveCall& call) {
  return !call.tensors.empty() && std::ranges::all_of(call.tensors, [](const at::Tensor& tensor) {
    return tensor.is_cuda() && tensor.is_non_overlapping_and_dense() &&
           find_dtype(tensor.scalar_type()).has_value();
  });
}

void enqueue(const CollectiveCall& call, ncclComm_t communicator, c10::cuda::CUDAStream stream) {
  const c10::cuda::CUDAGuard guard(stream.device());
  NcclCallGroup group;
  for (const at::Tensor& tensor : call.tensors)
    group.add(start_on_card(call, tensor, communicator, stream.stream()));
  group.end("a collective");
}

}  // namespace brigade::comm
