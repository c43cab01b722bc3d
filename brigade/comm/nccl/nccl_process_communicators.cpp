#include "brigade/comm/nccl/nccl_agreement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/nccl/nccl_group.h"

namespace brigade::comm {

namespace {

NcclCapability own_capability(const NcclLibrary* library, const cluster::Environment& environment,
                              const cluster::Membership& membership,
                              const std::vector<c10::Device>& devices, Transport transport) {
  if (library == nullptr) {
    return {.obstacle = NcclObstacle{ErrorCode::kUnimplemented,
                                     "NCCL is not built into the program: configure with "
                                     "-DBRIGADE_WITH_CUDA=ON where nccl.h is installed."}};
  }
  NcclCapability capability{.obstacle = network_obstacle(membership, transport, environment)};
  try {
    for (const c10::Device& device : devices) capability.cards.push_back(library->card_id(device));
  } catch (const std::exception& error) {
    capability.obstacle =
        NcclObstacle{ErrorCode::kUnavailable, std::string(base::without_stack_trace(error.what()))};
  }
  return capability;
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
  const NcclCapability own =
      own_capability(library, environment, *membership, devices, options.transport);
  if (const auto obstacle = agree_on_nccl(*membership, name, own, options.timeout)) {
    if (options.transport == Transport::kNccl) throw Error(obstacle->code, obstacle->reason);
    base::log_info(
        base::str_cat("Tensors are sent between processes through host memory, not through "
                      "NCCL. ",
                      obstacle->reason));
    return host;
  }
  const NcclCliqueOptions clique_options{
      .id = exchange_nccl_id(
          *membership, name, [&] { return library->make_id(); }, options.timeout),
      .world_size = host.front()->world_size(),
      .first_rank = host.front()->rank(),
      .cards = devices};
  const auto group = std::make_shared<NcclGroup>(library->start_joining(clique_options), membership,
                                                 name, options);
  std::vector<std::unique_ptr<Communicator>> all;
  for (auto& one : host) {
    const int local_rank = static_cast<int>(all.size());
    all.push_back(make_nccl_communicator(group, local_rank, std::move(one)));
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
