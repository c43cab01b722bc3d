#include "brigade/comm/nccl.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <set>

#include "brigade/base/error.h"
#include "brigade/comm/nccl_types.h"

namespace brigade::comm {

namespace {

/// NCCL orders its work on the rank's current stream: what is enqueued later sees the result.
class EnqueuedWork final : public Work {
 public:
  void wait() override {}
};

/// The communicators of all ranks, ended together when the last rank's is gone.
class Clique {
 public:
  explicit Clique(const std::vector<int>& cards) : ranks_(cards.size()) {
    check_nccl(ncclCommInitAll(ranks_.data(), static_cast<int>(cards.size()), cards.data()),
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

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Clique> clique, std::unique_ptr<Communicator> local)
      : clique_(std::move(clique)), local_(std::move(local)) {}

  int rank() const override { return local_->rank(); }
  int world_size() const override { return local_->world_size(); }

  std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) override {
    if (!are_dense_on_cuda(tensors)) return local_->all_reduce(tensors, op);
    // A lost peer must be an error before the card waits for it: meet on the host first.
    local_->barrier();
    return grouped(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor),
                           nccl_operation(op), clique_->at(rank()), stream);
    });
  }

  std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) override {
    if (!are_dense_on_cuda(tensors)) return local_->broadcast(tensors, root);
    local_->barrier();
    return grouped(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor), root,
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
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    for (const at::Tensor& tensor : tensors) check_nccl(call(tensor, stream), "a collective");
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
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
