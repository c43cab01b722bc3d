#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/membership.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::rpc {

/// Whether this build has gRPC. Without it only a cluster of one process can be joined.
bool is_built_in();

/// Options of RendezvousServer.
struct RendezvousServerOptions {
  /// "host:port"; port 0 takes a free one. Beyond loopback only with a key (kPermissionDenied,
  /// saying how to make one).
  std::string address = "127.0.0.1:0";
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The members of the first generation, and its number.
  int world_size = 1;
  int generation = 0;
  /// A member that has been silent for this long is lost.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// A connection without a member's Hello for this long is closed.
  std::chrono::milliseconds hello_timeout = std::chrono::seconds(5);
  /// Called on a thread of the server for each lost member. Must not block.
  std::function<void(const cluster::LostMember&, int generation)> on_lost = {};
  /// Likewise for each member that leaves as planned, before the others are notified.
  std::function<void(const cluster::Member&, int generation)> on_left = {};
  /// Likewise when all members of a generation have joined.
  std::function<void(int generation)> on_all_joined = {};
};

/// The rendezvous of a job: a key-value store, the list of members, and the detection of lost
/// members. It runs in the process of rank 0 or in the launcher.
///
/// Owns its threads (gRPC's); they end in the destructor, which takes less than a second whatever
/// the members do. Thread-safety: all functions from any thread.
class RendezvousServer {
 public:
  virtual ~RendezvousServer() = default;
  /// "host:port" on which it listens, with the actual port.
  virtual std::string address() const = 0;
  /// Clears members and keys, and waits for `world_size` members of the next generation. Calls of
  /// members of earlier generations then throw kAborted.
  virtual void begin_generation(int generation, int world_size) = 0;
  /// The number of store calls from programs that are not members. They changed nothing.
  virtual std::int64_t num_refused_calls() = 0;
};

/// Throws kUnavailable, naming the address, if the server cannot listen on it.
std::unique_ptr<RendezvousServer> make_rendezvous_server(const RendezvousServerOptions& options);

/// The state of the process that holds a rank when another process claims it.
enum class RankHolder {
  kPresent,  ///< it is a member
  kGone      ///< it left or was lost: the next generation can accept another process
};

/// Thrown by `join` with kFailedPrecondition if another process has joined with this rank.
class RankTakenError : public Error {
 public:
  RankTakenError(RankHolder holder, const std::string& message)
      : Error(ErrorCode::kFailedPrecondition, message), holder_(holder) {}
  RankHolder holder() const noexcept { return holder_; }

 private:
  RankHolder holder_;
};

/// Options of `join`: the key, and how long to wait for other members.
struct JoinOptions {
  /// The key that all processes of the cluster share. Default: `ClusterKey::from_environment`.
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// All members have to join within this time; the error names those that did not.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  /// A member that has been silent for this long is lost. Four heartbeats are sent in this time.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// Cancels the wait at the start, for example on SIGTERM.
  concurrency::CancelToken cancel = {};
};

/// Joins the cluster that `config` describes and returns when all members have joined. Rank 0
/// serves the rendezvous if no launcher does. A cluster of one process needs no gRPC, listens on
/// nothing and returns immediately. Throws kDeadlineExceeded, naming the tasks (or ranks) that did
/// not join and their addresses; kPermissionDenied for a peer beyond loopback without a key, and
/// for a key that differs from the cluster's; RankTakenError (kFailedPrecondition), naming both, if
/// two processes claim one rank; kFailedPrecondition if they disagree about the world size;
/// kCancelled; kUnimplemented without gRPC.
std::shared_ptr<cluster::Membership> join(const cluster::ClusterConfig& config,
                                          const JoinOptions& options = {});

}  // namespace brigade::rpc
