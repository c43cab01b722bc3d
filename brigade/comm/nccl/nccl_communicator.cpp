#include "brigade/comm/nccl/nccl_communicator.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

/// Equal if NCCL would do the same: of call, dtypes, shapes and strides.
std::int64_t digest_of(const CollectiveCall& call) {
  const CallHeader header = header_of(call);
  std::uint64_t digest = mix(header.digest, static_cast<std::uint64_t>(header.tensors));
  digest = mix(digest, static_cast<std::uint64_t>(call.kind));
  digest = mix(digest, static_cast<std::uint64_t>(call.op));
  digest = mix(digest, static_cast<std::uint64_t>(call.root));
  for (const at::Tensor& tensor : call.tensors) {
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

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    if (!call.traits().runs_on_nccl || !all_take(call)) return host_->run(call);
    try {
      run_on_gpus(call);
    } catch (const std::exception& error) {  // such as no memory for the sums
      runner_->abandon(local_rank_, std::string(base::without_stack_trace(error.what())));
      throw;
    }
    return {};
  }

  void run_on_gpus(const CollectiveCall& call) {
    if (!call.traits().reduces) return runner_->run(local_rank_, call);
    const AccumulationTensors sums(call.tensors, call.op);  // NCCL rounds every step
    CollectiveCall in_sums = call;
    in_sums.tensors = sums.tensors();
    runner_->run(local_rank_, in_sums);
    sums.copy_back();
  }

  /// Whether all ranks make this call and NCCL supports it.
  bool all_take(const CollectiveCall& call) {
    const bool takes = !call.find_problem(world_size()) && runner_->takes(call);
    at::Tensor own = at::empty({2}, at::kLong);
    own.mutable_data_ptr<std::int64_t>()[0] = takes ? 1 : 0;
    own.mutable_data_ptr<std::int64_t>()[1] = digest_of(call);
    const std::vector<at::Tensor> all = host_->all_gather(own);
    return takes && std::ranges::all_of(all, [&](const auto& other) { return other.equal(own); });
  }

  const std::shared_ptr<NcclRunner> runner_;
  const int local_rank_;
  const std::unique_ptr<Communicator> host_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host) {
  return std::make_unique<NcclCommunicator>(std::move(runner), local_rank, std::move(host));
}

}  // namespace brigade::comm
