#include "brigade/comm/nccl.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <set>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

void check(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess) return;
  throw Error(ErrorCode::kUnavailable,
              base::str_cat("NCCL: ", call, " failed: ", ncclGetErrorString(result), "."));
}

ncclDataType_t dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
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
      throw Error(ErrorCode::kInvalidArgument,
                  base::str_cat("NCCL cannot send tensors of dtype ",
                                c10::toString(tensor.scalar_type()), "."));
  }
}

ncclRedOp_t operation_of(ReduceOp op) {
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

/// NCCL orders its work on the rank's current stream: what is enqueued later sees the result.
class EnqueuedWork final : public Work {
 public:
  void wait() override {}
};

/// The communicators of all ranks, ended together when the last rank's is gone.
class Clique {
 public:
  explicit Clique(const std::vector<int>& cards) : ranks_(cards.size()) {
    check(ncclCommInitAll(ranks_.data(), static_cast<int>(cards.size()), cards.data()),
          "ncclCommInitAll");
  }
  ~Clique() {
    for (const ncclComm_t rank : ranks_) ncclCommDestroy(rank);
  }
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  ncclComm_t at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<ncclComm_t> ranks_;
};

bool all_on_cuda(std::span<const at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cuda() || !tensor.is_non_overlapping_and_dense()) return false;
  }
  return !tensors.empty();
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Clique> clique, std::unique_ptr<Communicator> local)
      : clique_(std::move(clique)), local_(std::move(local)) {}

  int rank() const override { return local_->rank(); }
  int world_size() const override { return local_->world_size(); }

  std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) override {
    if (!all_on_cuda(tensors)) return local_->all_reduce(tensors, op);
    // A lost peer must be an error before the card waits for it: meet on the host first.
    local_->barrier();
    return grouped(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), dtype_of(tensor),
                           operation_of(op), clique_->at(rank()), stream);
    });
  }

  std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) override {
    if (!all_on_cuda(tensors)) return local_->broadcast(tensors, root);
    local_->barrier();
    return grouped(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), dtype_of(tensor), root,
                           clique_->at(rank()), stream);
    });
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    return local_->all_gather(tensor);
  }
  void barrier() override { local_->barrier(); }

 private:
  template <class Call>
  std::unique_ptr<Work> grouped(std::span<const at::Tensor> tensors, const Call& call) {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAGuard guard(tensors.front().device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    check(ncclGroupStart(), "ncclGroupStart");
    for (const at::Tensor& tensor : tensors) check(call(tensor, stream), "a collective");
    check(ncclGroupEnd(), "ncclGroupEnd");
    return std::make_unique<EnqueuedWork>();
  }

  const std::shared_ptr<Clique> clique_;
  const std::unique_ptr<Communicator> local_;
};

}  // namespace

bool nccl_is_built_in() {
  return true;
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local) {
  check_argument(std::set<int>(cards.begin(), cards.end()).size() == cards.size(),
                 "NCCL wants every rank on a card of its own.");
  const auto clique = std::make_shared<Clique>(cards);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& rank : local)
    communicators.push_back(std::make_unique<NcclCommunicator>(clique, std::move(rank)));
  return communicators;
}

}  // namespace brigade::comm
