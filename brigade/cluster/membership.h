#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/host_identity.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::cluster {

/// One process that takes part in a job.
struct Member {
  int rank = 0;
  Task task = {};
  /// The name that its host has there, for messages: others may have the same.
  std::string host = {};
  std::int64_t pid = 0;
  HostIdentity identity = {};
  /// From which it reaches the rendezvous; empty where that is over the loopback interface.
  std::string address = {};

  friend bool operator==(const Member&, const Member&) = default;
};

/// How a member is gone.
enum class LossKind {
  kClosed,  ///< its connection was closed: its process has ended, or soon will
  kSilent,  ///< it was not heard of for the peer timeout: it may be there still
  kEnded    ///< the meeting point ended the members' generation
};

/// A member that is gone, and how that was noticed: "its connection was closed", "it has not been
/// heard of for 10 s".
struct LostMember {
  Member member;
  /// For people; programs act on the kind.
  std::string reason;
  LossKind kind = LossKind::kClosed;
};

/// The processes that train together, from the moment when all have come until the first is gone:
/// who they are, a small store of keys through which they find each other, and the news that one is
/// lost. A set of members never changes; a job that goes on without one forms a new membership of
/// the next generation.
///
/// Whoever blocks on a peer registers with `lost_token` and gives up when it is cancelled: so a
/// lost peer is an error that names it, everywhere, within the peer timeout.
///
/// Thread-safety: all functions from any thread.
class Membership {
 public:
  virtual ~Membership() = default;

  virtual const Member& self() const = 0;
  /// By rank.
  virtual const std::vector<Member>& members() const = 0;
  virtual int generation() const = 0;

  /// Stores `value`, which all members see under `key`, in place of an earlier one. Throws
  /// kUnavailable, naming the peer, if the store cannot be reached.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// The value under `key`, as soon as a member has set it. Throws kDeadlineExceeded, naming the
  /// key, after `timeout`; kUnavailable, naming the member, when one is lost meanwhile.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;
  /// Adds to the number under `key`, 0 at first; returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Stores `value` as the next one of the list `key` and returns its number, from 1: members see
  /// it under "<key>/<number>". In one step, so that no number is ever without a value.
  virtual std::int64_t append(std::string_view key, std::string_view value) = 0;
  /// Returns when every member has come to the barrier of this name; each name serves once. Throws
  /// as `get`, naming who is missing.
  virtual void barrier(std::string_view name, std::chrono::milliseconds timeout) = 0;

  /// The first member that was lost; this process too may be, to the others.
  virtual std::optional<LostMember> lost() const = 0;
  /// Cancelled as soon as a member is lost.
  virtual concurrency::CancelToken lost_token() const = 0;

  /// Tells the others that this process ends as planned, which is no loss to them. Called by the
  /// destructor too.
  virtual void leave() noexcept = 0;
};

/// The first member that cannot share memory with rank 0 (`same_process_namespace`), and so with some;
/// null where all can. The same for all members.
const Member* first_without_shared_memory(const Membership& membership);
/// The first member that this one does not reach over the loopback interface (`same_network_namespace`);
/// null where there is none, which then is so for all members.
const Member* first_on_another_network(const Membership& membership);

/// "/job:worker/task:1 (rank 1, pid 4711 on host a)".
std::string to_string(const Member& member);
/// The same, followed by " was lost: ..." with the reason.
std::string to_string(const LostMember& lost);

/// kUnavailable, "/job:worker/task:1 (rank 1, pid 4711 on host a) was lost: ...; `what` is given
/// up."
Error lost_error(const LostMember& lost, std::string_view what);
/// Throws `lost_error` if a member is lost.
void throw_if_lost(const Membership& membership, std::string_view what);

}  // namespace brigade::cluster
