#include <grpcpp/channel.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/remote.h"
#include "brigade/rpc/remote_membership.h"
#include "brigade/rpc/rendezvous_state.h"
#include "brigade/rpc/start_report.h"
#include "brigade/rpc/tls_probe.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{300};
// After this time the log says which process it waits for.
constexpr milliseconds kPatience{2000};
constexpr milliseconds kProbeTime{1000};

std::unique_ptr<RendezvousServer> serve_if_first(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options) {
  const bool is_ours = config.rank == 0 && config.rendezvous_host ==
                                               cluster::ClusterConfig::RendezvousHost::kFirstMember;
  if (!is_ours) return nullptr;
  if (!options.key) base::log_info(keyless_text(config));
  return make_remote_server({.address = config.rendezvous,
                             .key = options.key,
                             .world_size = config.world_size,
                             .generation = config.generation,
                             .peer_timeout = options.peer_timeout},
                            this_process(config.rank, config.task));
}

/// Waits between two attempts, not beyond the deadline; a cancelled token ends it. Drives a
/// connection that is not ready meanwhile: gRPC makes progress with a connection attempt only while
/// a caller waits for it, otherwise every 5 s.
void pause(milliseconds time, Clock::time_point deadline, const concurrency::CancelToken& cancel,
           grpc::Channel& channel) {
  const milliseconds wait =
      std::min(time, std::chrono::ceil<milliseconds>(deadline - Clock::now()));
  if (channel.GetState(false) == GRPC_CHANNEL_READY) {
    return concurrency::interruptible_wait(wait, cancel);
  }
  channel.WaitForConnected(std::chrono::system_clock::now() + wait);
}

[[noreturn]] void throw_unreachable(const cluster::ClusterConfig& config,
                                    const JoinOptions& options, const std::string& last_problem) {
  throw Error(ErrorCode::kDeadlineExceeded,
              base::str_cat(describe_host(config), " could not be reached within ",
                            in_seconds(options.start_timeout),
                            "; see whether it was started, and whether all processes have the same "
                            "cluster key (",
                            last_problem, ")."));
}

/// After a failed connection attempt: throws if the reason is the key.
void require_same_key(const cluster::ClusterConfig& config, const cluster::Address& address,
                      const cluster::TlsIdentity& identity) {
  if (probe_tls(address, identity, kProbeTime) != TlsVerdict::kRefused) return;
  throw Error(ErrorCode::kPermissionDenied,
              base::str_cat("The cluster key of this process differs from that of ",
                            describe_host(config), ", or only one of the two has one."));
}

}  // namespace

std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig& config,
                                                 const JoinOptions& options) {
  const auto begun_at = Clock::now();
  const auto deadline = begun_at + std::min(options.start_timeout, kLongestWait);
  auto server = serve_if_first(config, options);
  const auto address = cluster::parse_address(config.rendezvous);
  const auto channel =
      make_channel(server ? connect_to_self_text(address) : connect_text(address), options.key);
  std::optional<cluster::TlsIdentity> identity;
  milliseconds next_pause = kFirstPause;
  WaitingLog log;
  for (;;) {
    auto membership = std::make_shared<RemoteMembership>(config, options, deadline, channel);
    const auto problem = membership->wait_for_start(log);
    if (!problem) {
      log.report_all_joined(config.world_size);
      membership->own(std::move(server));
      return membership;
    }
    membership.reset();
    if (options.key && channel->GetState(false) != GRPC_CHANNEL_READY) {
      if (!identity) identity = cluster::make_tls_identity(*options.key);
      require_same_key(config, address, *identity);
    }
    if (Clock::now() > begun_at + kPatience)
      log.report(base::str_cat("Waiting for ", describe_host(config)));
    pause(next_pause, deadline, options.cancel, *channel);
    options.cancel.throw_if_cancelled("The start of the cluster");
    if (Clock::now() >= deadline) throw_unreachable(config, options, *problem);
    next_pause = std::min(next_pause * 2, kLongestPause);
  }
}

}  // namespace brigade::rpc
