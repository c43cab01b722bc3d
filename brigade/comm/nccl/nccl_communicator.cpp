#include "brigade/comm/nccl/nccl_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "brigade/comm/completed_work.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/local/accumulation.h"

namespace brigade::comm {

namespace {

class EnqueuingRunner final : public NcclRunner {
 public:
  explicit EnqueuingRunner(std::shared_ptr<NcclCollectives> collectives)
      : collectives_(std::move(collectives)) {}

  bool takes(std::span<const at::Tensor> tensors) const override {
    return collectives_->takes(tensors);
  }
  void run(int /*local_rank*/, std::string_view /*what*/,
           const std::function<void(NcclCollectives&)>& start) override {
    start(*collectives_);
  }

 private:
  const std::shared_ptr<NcclCollectives> collectives_;
};

/// Equal if NCCL would do the same: of call, dtypes, shapes and strides.
std::int64_t digest_of(Collective call, std::span<const at::Tensor> tensors, int root) {
  const CallHeader header = header_of(call, tensors, root);
  std::uint64_t digest = mix(header.digest, static_cast<std::uint64_t>(header.tensors));
  digest = mix(digest, static_cast<std::uint64_t>(call));
  digest = mix(digest, static_cast<std::uint64_t>(root));
  for (const at::Tensor& tensor : tensors) {
    for (const std::int64_t stride : tensor.strides())
      digest = mix(digest, static_cast<std::uint64_t>(stride));
  }
  return static_cast<std::int64_t>(digest);
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclRunner> runner, int local_rank,
                   std::unique_ptr<Communicator> host)
      : runner_(std::move(runner)), local_rank_(local_rank), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int world_size() const override { return host_->world_size(); }

  std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) override {
    const at::NoGradGuard no_grad;
    const bool has_result =
        op != ReduceOp::kMean ||
        std::ranges::all_of(tensors, [](const auto& t) { return t.is_floating_point(); });
    if (!all_take(reduction(op), tensors, 0, has_result)) return host_->all_reduce(tensors, op);
    const AccumulationTensors sums(tensors, op);  // NCCL rounds every step
    runner_->run(local_rank_, "all_reduce", [&](NcclCollectives& nccl) {
      nccl.start_all_reduce(local_rank_, sums.tensors(), op);
    });
    sums.copy_back();
    return std::make_unique<CompletedWork>();
  }

  std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) override {
    const at::NoGradGuard no_grad;
    const bool is_rank = root >= 0 && root < world_size();
    if (!all_take(Collective::kBroadcast, tensors, root, is_rank))
      return host_->broadcast(tensors, root);
    runner_->run(local_rank_, "broadcast",
                 [&](NcclCollectives& nccl) { nccl.start_broadcast(local_rank_, tensors, root); });
    return std::make_unique<CompletedWork>();
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    return host_->all_gather(tensor);
  }
  void barrier() override { host_->barrier(); }

 private:
  /// Whether all ranks make this call and NCCL supports it.
  bool all_take(Collective call, std::span<const at::Tensor> tensors, int root, bool is_valid) {
    const bool takes = is_valid && runner_->takes(tensors);
    at::Tensor own = at::empty({2}, at::kLong);
    own.mutable_data_ptr<std::int64_t>()[0] = takes ? 1 : 0;
    own.mutable_data_ptr<std::int64_t>()[1] = digest_of(call, tensors, root);
    const std::vector<at::Tensor> all = host_->all_gather(own);
    return takes && std::ranges::all_of(all, [&](const auto& other) { return other.equal(own); });
  }

  const std::shared_ptr<NcclRunner> runner_;
  const int local_rank_;
  const std::unique_ptr<Communicator> host_;
};

}  // namespace

std::unique_ptr<NcclRunner> make_enqueuing_runner(std::shared_ptr<NcclCollectives> collectives) {
  return std::make_unique<EnqueuingRunner>(std::move(collectives));
}

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host) {
  return std::make_unique<NcclCommunicator>(std::move(runner), local_rank, std::move(host));
}

}  // namespace brigade::comm
