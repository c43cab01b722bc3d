#include "brigade/comm/nccl_process_communicators.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/call_header.h"
#include "brigade/comm/done_work.h"
#include "brigade/comm/nccl.h"
#include "brigade/comm/nccl_agreement.h"
#include "brigade/comm/nccl_group.h"

namespace brigade::comm {

namespace {

/// Equal where NCCL would do the same: call, dtypes, shapes, and where the elements lie.
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

class NcclProcessCommunicator final : public Communicator {
 public:
  NcclProcessCommunicator(std::shared_ptr<NcclGroup> group, int local_rank,
                          std::unique_ptr<Communicator> host)
      : group_(std::move(group)), local_rank_(local_rank), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int world_size() const override { return host_->world_size(); }

  std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) override {
    const at::NoGradGuard no_grad;
    const bool has_result =
        op != ReduceOp::kMean ||
        std::ranges::all_of(tensors, [](const auto& t) { return t.is_floating_point(); });
    if (!all_take(reduction(op), tensors, 0, has_result)) return host_->all_reduce(tensors, op);
    group_->run(local_rank_, "all_reduce",
                [&](NcclClique& clique) { clique.start_all_reduce(local_rank_, tensors, op); });
    return std::make_unique<DoneWork>();
  }

  std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) override {
    const at::NoGradGuard no_grad;
    const bool is_rank = root >= 0 && root < world_size();
    if (!all_take(Collective::kBroadcast, tensors, root, is_rank))
      return host_->broadcast(tensors, root);
    group_->run(local_rank_, "broadcast",
                [&](NcclClique& clique) { clique.start_broadcast(local_rank_, tensors, root); });
    return std::make_unique<DoneWork>();
  }

  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    return host_->all_gather(tensor);
  }
  void barrier() override { host_->barrier(); }

 private:
  /// Whether all ranks make this call and NCCL can serve it. Where not, the way over the host
  /// serves it, or says which ranks differ.
  bool all_take(Collective call, std::span<const at::Tensor> tensors, int root, bool is_valid) {
    const bool takes = is_valid && group_->takes(tensors);
    at::Tensor own = at::empty({2}, at::kLong);
    own.mutable_data_ptr<std::int64_t>()[0] = takes ? 1 : 0;
    own.mutable_data_ptr<std::int64_t>()[1] = digest_of(call, tensors, root);
    const std::vector<at::Tensor> all = host_->all_gather(own);
    return takes && std::ranges::all_of(all, [&](const auto& other) { return other.equal(own); });
  }

  const std::shared_ptr<NcclGroup> group_;
  const int local_rank_;
  const std::unique_ptr<Communicator> host_;
};

NcclSide side_of(const NcclLibrary* library, const cluster::Environment& environment,
                 const cluster::Membership& membership, const std::vector<c10::Device>& devices,
                 Transport transport) {
  if (library == nullptr) {
    return {.obstacle = NcclObstacle{ErrorCode::kUnimplemented,
                                     "NCCL is not built into the program: configure with "
                                     "-DBRIGADE_WITH_CUDA=ON where nccl.h is installed."}};
  }
  NcclSide side{.obstacle = network_obstacle(membership, transport, environment)};
  try {
    for (const c10::Device& device : devices) side.cards.push_back(library->card_id(device));
  } catch (const std::exception& error) {
    side.obstacle =
        NcclObstacle{ErrorCode::kUnavailable, std::string(base::without_stack_trace(error.what()))};
  }
  return side;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    const NcclLibrary* library, const cluster::Environment& environment,
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options) {
  check_argument(!host.empty() && host.size() == devices.size(),
                 "make_nccl_process_communicators: give one device for each communicator.");
  // The n-th groups of all members belong together.
  const std::int64_t number =
      membership->add(base::str_cat("nccl/count/", membership->self().rank), 1);
  const std::string name = base::str_cat("nccl/", membership->generation(), "/", number);
  const NcclSide own = side_of(library, environment, *membership, devices, options.transport);
  if (const auto obstacle = agree_on_nccl(*membership, name, own, options.timeout)) {
    if (options.transport == Transport::kNccl) throw Error(obstacle->code, obstacle->reason);
    base::log_info(
        base::str_cat("Tensors go between processes over the host's memory, not over "
                      "NCCL. ",
                      obstacle->reason));
    return host;
  }
  const NcclPlace place{.id = exchange_nccl_id(
                            *membership, name, [&] { return library->make_id(); }, options.timeout),
                        .world_size = host.front()->world_size(),
                        .first_rank = host.front()->rank(),
                        .cards = devices};
  const auto group =
      std::make_shared<NcclGroup>(library->start_joining(place), membership, name, options);
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& one : host) {
    const int local_rank = static_cast<int>(all.size());
    all.push_back(std::make_unique<NcclProcessCommunicator>(group, local_rank, std::move(one)));
  }
  return all;
}

std::vector<std::unique_ptr<Communicator>> make_nccl_process_communicators(
    std::shared_ptr<cluster::Membership> membership, const std::vector<c10::Device>& devices,
    std::vector<std::unique_ptr<Communicator>> host, const CommunicationOptions& options) {
  const bool is_named = options.transport == Transport::kNccl;
  if (!is_named && options.transport != Transport::kAuto) return host;
  if (!std::ranges::all_of(devices, [](const auto& device) { return device.is_cuda(); })) {
    check_argument(!is_named,
                   "The transport 'nccl' carries tensors between GPUs, and these replicas are on "
                   "CPUs: use 'auto', or give every worker GPUs.");
    return host;
  }
  if (membership->members().size() == 1) return host;
  const std::unique_ptr<NcclLibrary> library = find_nccl_library();
  return make_nccl_process_communicators(library.get(), cluster::process_environment(),
                                         std::move(membership), devices, std::move(host), options);
}

}  // namespace brigade::comm
