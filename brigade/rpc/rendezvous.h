#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/rpc/rank_taken.h"

namespace brigade::rpc {

/// Whether this build has gRPC. Without it only a cluster of one can be joined.
bool is_built_in();

struct RendezvousServerOptions {
  /// "host:port"; port 0 takes a free one. Beyond loopback only with a key (kPermissionDenied,
  /// saying how to make one).
  std::string address = "127.0.0.1:0";
  std::optional<cluster::ClusterKey> key = std::nullopt;
  int world_size = 1;
  int generation = 0;
  /// A member that was not heard of for this long is lost.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// Whoever connects, and has not said hello as a member for this long, is cut off.
  std::chrono::milliseconds hello_timeout = std::chrono::seconds(5);
  /// Called, on a thread of the server's, for each member that is lost. Must not block.
  std::function<void(const cluster::LostMember&, int generation)> on_lost = {};
  /// The same for each that leaves as planned, before the others hear of it.
  std::function<void(const cluster::Member&, int generation)> on_left = {};
  /// Called likewise when all members of a generation have come.
  std::function<void(int generation)> on_all_joined = {};
};

/// The meeting point of a job: a store of keys, the list of members, and the watch over them. One
/// lives in the process of rank 0, or in the launcher.
///
/// Owns its threads (gRPC's); they end in the destructor, which takes less than a second whatever
/// the members do. Thread-safety: all functions from any thread.
class RendezvousServer {
 public:
  virtual ~RendezvousServer() = default;
  /// "host:port" that it listens on, with the port that was taken.
  virtual std::string address() const = 0;
  /// Forgets members and keys, and waits for `world_size` members of the next generation. Members
  /// of earlier generations get kAborted from then on.
  virtual void begin_generation(int generation, int world_size) = 0;
  /// How many calls of the store came from programs that are no members; they changed nothing.
  virtual std::int64_t num_refused_calls() = 0;
};

/// Throws kUnavailable if the address cannot be listened on, naming it and who may have it.
std::unique_ptr<RendezvousServer> make_rendezvous_server(const RendezvousServerOptions& options);

struct JoinOptions {
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// Everybody has to come within this time; who did not is named.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  /// A member that was not heard of for this long is lost. Beats are sent four times as often.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// Gives up the wait at the start, as SIGTERM does.
  concurrency::CancelToken cancel = {};
};

/// Joins the cluster that `config` describes and returns when every member has come. Rank 0 serves
/// the rendezvous if no launcher does. A cluster of one needs no gRPC, listens on nothing and
/// returns at once. Throws kDeadlineExceeded, naming the tasks (or ranks) that did not come and
/// where they were expected; kPermissionDenied for a peer beyond loopback without a key, and for a
/// key that is not the cluster's; RankTakenError (kFailedPrecondition), naming both, where
/// two processes claim one rank; kFailedPrecondition where they disagree about the world's size;
/// kCancelled; kUnimplemented without gRPC.
std::shared_ptr<cluster::Membership> join(const cluster::ClusterConfig& config,
                                          const JoinOptions& options = {});

}  // namespace brigade::rpc
