#include "brigade/comm/nccl/nccl_communicator.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/exchange/call_header.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/device/stream.h"

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
  void finish() override {
    host_->finish();
    runner_->finish(local_rank_);
  }

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    runner_->throw_if_failed();
    const bool is_on_gpus = call.is_agreed ? sums_on_gpus_ : goes_to_gpus(call);
    if (!is_on_gpus) return host_->run(call);
    if (call.tensors.empty()) return {};  // no rank has a value
    try {
      run_on_gpus(call);
    } catch (const std::exception& error) {  // such as no memory for the sums
      runner_->abandon(local_rank_, std::string(base::without_stack_trace(error.what())));
      throw;
    }
    return {};
  }

  bool goes_to_gpus(const CollectiveCall& call) {
    return call.traits().runs_on_nccl && agree(call, {}).takes;
  }

  void run_on_gpus(const CollectiveCall& call) {
    // They may be of another stream, and the host may free them before the GPU gets to the call.
    for (const at::Tensor& tensor : call.tensors) device::use_on_current_stream(tensor);
    if (!call.traits().reduces) return runner_->run(local_rank_, call);
    const AccumulationTensors sums(call.tensors, call.op);  // NCCL rounds every step
    CollectiveCall in_sums = call;
    in_sums.tensors = sums.tensors();
    runner_->run(local_rank_, in_sums);
    sums.copy_back();
  }

  // If ranks differ, all make the call on the host, which says who does.
  std::vector<bool> agree_on_present(const CollectiveCall& sum,
                                     const std::vector<bool>& present) override {
    runner_->throw_if_failed();
    Agreement agreement = agree(sum, present);
    sums_on_gpus_ = agreement.takes;
    return std::move(agreement.present);
  }

  /// What all ranks make of a call.
  struct Agreement {
    bool takes = false;              ///< all ranks make this call and NCCL supports it
    std::vector<bool> present = {};  ///< [value]: on at least one rank
  };
  Agreement agree(const CollectiveCall& call, const std::vector<bool>& present) {
    const std::int64_t digest = digest_of(call);
    const bool takes = !call.find_problem(world_size()) && runner_->takes(call);
    const at::Tensor votes = at::empty({3 + static_cast<std::int64_t>(present.size())}, at::kLong);
    auto* const vote = votes.mutable_data_ptr<std::int64_t>();
    vote[0] = takes ? 0 : 1;
    vote[1] = digest;
    vote[2] = ~digest;  // whose maximum is that of the minimum
    for (std::size_t i = 0; i < present.size(); ++i) vote[3 + i] = present[i] ? 1 : 0;
    host_->all_reduce({&votes, 1}, ReduceOp::kMax)->wait();
    Agreement agreement{.takes = vote[0] == 0 && vote[1] == ~vote[2]};
    for (std::size_t i = 0; i < present.size(); ++i) agreement.present.push_back(vote[3 + i] != 0);
    return agreement;
  }

  const std::shared_ptr<NcclRunner> runner_;
  const int local_rank_;
  const std::unique_ptr<Communicator> host_;
  bool sums_on_gpus_ = false;  // of the call that follows `agree_on_present`
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host) {
  return std::make_unique<NcclCommunicator>(std::move(runner), local_rank, std::move(host));
}

}  // namespace brigade::comm
