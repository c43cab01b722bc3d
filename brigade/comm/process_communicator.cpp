#include "brigade/comm/process_communicator.h"

#include <algorithm>
#include <array>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

namespace {

/// [Transport].
constexpr std::array<std::string_view, 5> kTransports = {"auto", "shared_memory", "gloo", "mpi",
                                                         "nccl"};

void check_options(const CommunicationOptions& options) {
  check_argument(options.timeout.count() > 0, "CommunicationOptions::timeout is ",
                 options.timeout.count(), " ms; it must be positive.");
  check_argument(options.slow_after.count() > 0, "CommunicationOptions::slow_after is ",
                 options.slow_after.count(), " ms; it must be positive.");
  check_argument(options.bytes_per_pack.value_or(0) >= 0,
                 "CommunicationOptions::bytes_per_pack is ", options.bytes_per_pack.value_or(0),
                 "; it must be 0 or more.");
}

void check_can_share_memory(const cluster::Membership& membership) {
  const cluster::Member* const apart = cluster::first_without_shared_memory(membership);
  if (!apart) return;
  throw Error(ErrorCode::kInvalidArgument,
              "The transport 'shared_memory' needs all processes on one host, and in one process "
              "namespace, but ",
              membership.members().front(), " and ", *apart, " are apart; use 'auto' or 'gloo'.");
}

/// Shared memory on one host, unless its processes cannot see each other (containers, processes of
/// several users); then, and between hosts, Gloo. All members make the same choice.
std::unique_ptr<ProcessLink> make_best_link(const std::shared_ptr<cluster::Membership>& membership,
                                            const std::string& name,
                                            const CommunicationOptions& options) {
  if (cluster::first_without_shared_memory(*membership))
    return make_gloo_link(membership, name, options);
  try {
    return make_shared_memory_link(membership, name, options);
  } catch (const Error& error) {
    const bool can_use_gloo = error.code() == ErrorCode::kUnavailable && !membership->lost();
    if (!can_use_gloo || !gloo_is_built_in()) throw;
    base::log_warning("Gloo is used instead of shared memory: ", error.what());
    return make_gloo_link(membership, name, options);
  }
}

[[noreturn]] void refuse_nccl() {
  throw Error(ErrorCode::kInvalidArgument,
              "The transport 'nccl' sends tensors between GPUs; values on the host need another: "
              "use 'auto', or give every worker GPUs.");
}

std::unique_ptr<ProcessLink> make_link(const std::shared_ptr<cluster::Membership>& membership,
                                       const std::string& name,
                                       const CommunicationOptions& options) {
  switch (options.transport) {
    case Transport::kAuto:
      break;
    case Transport::kSharedMemory:
      check_can_share_memory(*membership);
      return make_shared_memory_link(membership, name, options);
    case Transport::kGloo:
      return make_gloo_link(membership, name, options);
    case Transport::kMpi:
      return make_mpi_link(membership, name, options);
    case Transport::kNccl:
      refuse_nccl();
  }
  return make_best_link(membership, name, options);
}

}  // namespace

std::string_view to_string(Transport transport) {
  return kTransports[static_cast<std::size_t>(transport)];
}

Transport parse_transport(std::string_view text) {
  if (text == "tcp") return Transport::kGloo;
  const auto found = std::ranges::find(kTransports, text);
  if (found != kTransports.end()) return static_cast<Transport>(found - kTransports.begin());
  throw Error(ErrorCode::kInvalidArgument, "'", text,
              "' is not a transport; choose auto, shared_memory, gloo (or tcp), mpi or nccl.");
}

std::unique_ptr<ProcessCommunicator> make_process_communicator(
    std::shared_ptr<cluster::Membership> membership, const CommunicationOptions& options) {
  check_options(options);
  if (options.transport == Transport::kNccl) refuse_nccl();
  if (options.transport == Transport::kMpi && !mpi_is_built_in())
    make_mpi_link(membership, "", options);  // throws the reason, for a single process too
  if (membership->members().size() == 1) {
    const Transport transport =
        options.transport == Transport::kAuto ? Transport::kSharedMemory : options.transport;
    return make_linked_communicator(make_single_link(transport), membership, options.wire);
  }
  // The n-th communicators of all members belong together.
  const std::int64_t number =
      membership->add(base::str_cat("comm/count/", membership->self().rank), 1);
  const std::string name = base::str_cat("comm/", membership->generation(), "/", number);
  return make_linked_communicator(make_link(membership, name, options), membership, options.wire);
}

}  // namespace brigade::comm
