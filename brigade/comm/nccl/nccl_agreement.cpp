#include "brigade/comm/nccl/nccl_agreement.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/nccl_group.h"

namespace brigade::comm {

namespace {

using std::chrono::milliseconds;

/// First line: the obstacle, or nothing. Then one GPU per line.
std::string to_text(const NcclCapability& capability) {
  std::string text;
  if (capability.obstacle) {
    text = base::str_cat(static_cast<int>(capability.obstacle->code), " ",
                         capability.obstacle->reason);
    std::ranges::replace(text, '\n', ' ');
  }
  for (const std::string& card : capability.cards) text += "\n" + card;
  return text;
}

NcclCapability parse_capability(const std::string& text) {
  NcclCapability capability;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (const std::size_t space = line.find(' '); space != std::string::npos) {
    const auto code = base::parse_int(std::string_view(line).substr(0, space));
    capability.obstacle = {.code = static_cast<ErrorCode>(code.value_or(0)),
                           .reason = line.substr(space + 1)};
  }
  while (std::getline(lines, line)) capability.cards.push_back(line);
  return capability;
}

/// Which member uses which GPU of which machine; containers on one machine share its GPUs.
class Cards {
 public:
  std::optional<NcclObstacle> add(const cluster::Member& member, const std::string& card) {
    const auto [owner, is_new] = owners_.try_emplace({member.identity.kernel, card}, &member);
    if (is_new) return std::nullopt;
    const cluster::Member& other = *owner->second;
    return NcclObstacle{
        ErrorCode::kInvalidArgument,
        base::str_cat("NCCL needs a separate GPU for each replica, but ",
                      other == member ? base::str_cat("two replicas of ", member, " use")
                                      : base::str_cat(other, " and ", member, " both use"),
                      " GPU ", card, " of host ", member.host,
                      ": start as many replicas as there are GPUs, give each process its own with "
                      "CUDA_VISIBLE_DEVICES (brigade launch does), or use the transport 'auto'.")};
  }

 private:
  std::map<std::pair<std::string, std::string>, const cluster::Member*> owners_;
};

bool is_loopback_interface(const std::optional<std::string>& interfaces) {
  return interfaces == "lo" || interfaces == "=lo";
}

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

std::optional<NcclObstacle> network_obstacle(const cluster::Membership& membership,
                                             Transport transport,
                                             const cluster::Environment& environment) {
  const bool has_key = cluster::ClusterKey::from_environment(environment).has_value();
  const auto interfaces = environment("NCCL_SOCKET_IFNAME");
  const cluster::Member* const elsewhere = cluster::first_on_another_network(membership);
  if (!elsewhere) {
    if (has_key || is_loopback_interface(interfaces)) return std::nullopt;
    return NcclObstacle{ErrorCode::kPermissionDenied,
                        "NCCL listens on the network, which needs a cluster key; on one host, set "
                        "NCCL_SOCKET_IFNAME=lo for all processes, so that it does not."};
  }
  if (!has_key) {
    return NcclObstacle{
        ErrorCode::kPermissionDenied,
        base::str_cat("Processes on several hosts (this one on ", membership.self().host, ", ",
                      *elsewhere,
                      ") need a cluster key: make one with `brigade launch --new-key`, and give it "
                      "to all in BRIGADE_CLUSTER_KEY_FILE.")};
  }
  if (transport == Transport::kAuto && !interfaces) {
    return NcclObstacle{ErrorCode::kPermissionDenied,
                        "Between hosts NCCL sends in the clear, so it is not used by default: set "
                        "NCCL_SOCKET_IFNAME to the interface of a network that only the cluster "
                        "uses, or choose the transport 'nccl'."};
  }
  return std::nullopt;
}

std::optional<NcclObstacle> agree_on_nccl(cluster::Membership& membership, const std::string& name,
                                          const NcclCapability& own, milliseconds timeout) {
  const auto key_of = [&](int rank) { return base::str_cat(name, "/side/", rank); };
  membership.set(key_of(membership.self().rank), to_text(own));
  Cards cards;
  std::optional<NcclObstacle> shared_card;
  for (const cluster::Member& member : membership.members()) {
    const NcclCapability capability =
        parse_capability(membership.get(key_of(member.rank), timeout));
    if (capability.obstacle) {
      return NcclObstacle{capability.obstacle->code,
                          base::str_cat(member, ": ", capability.obstacle->reason)};
    }
    for (const std::string& card : capability.cards) {
      auto obstacle = cards.add(member, card);
      if (!shared_card) shared_card = std::move(obstacle);
    }
  }
  return shared_card;
}

std::string exchange_nccl_id(cluster::Membership& membership, const std::string& name,
                             const std::function<std::string()>& make, milliseconds timeout) {
  constexpr char kMade = '+';
  constexpr char kFailed = '-';
  const std::string key = name + "/id";
  if (membership.self().rank == 0) {
    try {
      membership.set(key, kMade + make());
    } catch (const std::exception& error) {
      membership.set(key, kFailed + std::string(base::without_stack_trace(error.what())));
    }
  }
  const std::string found = membership.get(key, timeout);
  if (!found.empty() && found.front() == kMade) return found.substr(1);
  throw Error(ErrorCode::kUnavailable, membership.members().front(),
              " could not start an NCCL group: ", found.substr(found.empty() ? 0 : 1));
}

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
