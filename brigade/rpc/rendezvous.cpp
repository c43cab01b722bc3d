#include "brigade/rpc/rendezvous.h"

#include <unistd.h>

#include "brigade/base/environment.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/grpc_threads.h"
#include "brigade/rpc/remote.h"

namespace brigade::rpc {
namespace {

KeyState state_of(const std::optional<cluster::ClusterKey>& key) {
  return key ? KeyState::kPresent : KeyState::kAbsent;
}

void check(const cluster::ClusterConfig& config, const JoinOptions& options) {
  check_argument(config.world_size >= 1, "A cluster has a world size of 1 or more, not ",
                 config.world_size, " (from ", config.source, ").");
  check_argument(config.rank >= 0 && config.rank < config.world_size, config.task, " has rank ",
                 config.rank, ", which is none of the ", config.world_size,
                 " that train together: it does not join their rendezvous.");
  check_argument(options.peer_timeout.count() >= 1, "join: peer_timeout must be above 0.");
  check_argument(options.start_timeout.count() >= 1, "join: start_timeout must be above 0.");
}

}  // namespace

cluster::Member this_process(int rank, const cluster::Task& task) {
  return {.rank = rank,
          .task = task,
          .host = base::host_name(),
          .pid = ::getpid(),
          .identity = cluster::this_host_identity()};
}

std::unique_ptr<RendezvousServer> make_rendezvous_server(const RendezvousServerOptions& options) {
  check_argument(options.world_size >= 1, "A rendezvous needs a world_size of 1 or more.");
  check_argument(options.peer_timeout.count() >= 1, "A rendezvous needs a peer_timeout above 0.");
  check_argument(options.hello_timeout >= std::chrono::milliseconds(1) &&
                     options.hello_timeout <= std::chrono::hours(1),
                 "A rendezvous needs a hello_timeout above 0 and up to an hour.");
  const auto address = cluster::parse_address(options.address, cluster::PortZero::kAllowed);
  require_key_beyond_loopback(address, state_of(options.key), "listen on");
  return with_grpc_threads([&] {
    return make_remote_server(options, this_process(-1, {"launcher", 0}));
  });
}

std::shared_ptr<cluster::Membership> join(const cluster::ClusterConfig& config,
                                          const JoinOptions& options) {
  check(config, options);
  if (config.world_size == 1) {
    return make_local_membership(this_process(0, config.task), config.generation);
  }
  const auto address = cluster::parse_address(config.rendezvous);
  require_key_beyond_loopback(address, state_of(options.key), "connect to");
  options.cancel.throw_if_cancelled("Joining the cluster");
  return with_grpc_threads([&] { return join_remote(config, options); });
}

}  // namespace brigade::rpc
