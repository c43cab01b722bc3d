#include "brigade/comm/nccl/nccl.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <set>

#include "brigade/base/error.h"
#include "brigade/comm/nccl/nccl_call_group.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/nccl/nccl_types.h"

namespace brigade::comm {

namespace {

/// The NCCL communicators of the GPUs of one process. They block while they connect, and enqueue
/// their work on each rank's current stream.
class OwnCards final : public NcclCollectives {
 public:
  explicit OwnCards(const std::vector<int>& cards) : ranks_(cards.size()) {
    check_nccl(ncclCommInitAll(ranks_.data(), static_cast<int>(cards.size()), cards.data()),
               "ncclCommInitAll");
  }
  ~OwnCards() override {
    for (const ncclComm_t rank : ranks_) ncclCommDestroy(rank);
  }
  OwnCards(const OwnCards&) = delete;
  OwnCards& operator=(const OwnCards&) = delete;

  bool takes(std::span<const at::Tensor> tensors) const override {
    return are_dense_on_cuda(tensors) && std::ranges::all_of(tensors, has_nccl_dtype);
  }

  void start_all_reduce(int local_rank, std::span<const at::Tensor> tensors, ReduceOp op) override {
    start(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclAllReduce(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor),
                           nccl_operation(op), at(local_rank), stream);
    });
  }

  void start_broadcast(int local_rank, std::span<const at::Tensor> tensors, int root) override {
    start(tensors, [&](const at::Tensor& tensor, cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(),
                           static_cast<std::size_t>(tensor.numel()), nccl_dtype(tensor), root,
                           at(local_rank), stream);
    });
  }

 private:
  ncclComm_t at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  template <class Call>
  static void start(std::span<const at::Tensor> tensors, const Call& call) {
    const c10::cuda::CUDAGuard guard(tensors.front().device());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    NcclCallGroup group;
    for (const at::Tensor& tensor : tensors) group.add(call(tensor, stream));
    group.end("a collective");
  }

  std::vector<ncclComm_t> ranks_;
};

}  // namespace

bool nccl_is_built_in() {
  return true;
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local) {
  check_argument(std::set<int>(cards.begin(), cards.end()).size() == cards.size(),
                 "NCCL needs a separate GPU for each rank.");
  const std::shared_ptr<NcclRunner> runner =
      make_enqueuing_runner(std::make_shared<OwnCards>(cards));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& rank : local) {
    const int number = rank->rank();
    communicators.push_back(make_nccl_communicator(runner, number, std::move(rank)));
  }
  return communicators;
}

}  // namespace brigade::comm
