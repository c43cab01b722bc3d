#pragma once

#include <chrono>
#include <cstdint>
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
  /// The name of its host, for messages: other hosts may have the same name.
  std::string host = {};
  std::int64_t pid = 0;
  HostIdentity identity = {};
  /// The address from which it connects to the rendezvous; empty over the loopback interface.
  std::string address = {};

  friend bool operator==(const Member&, const Member&) = default;
};

/// How a member was lost.
enum class LossKind {
  kClosed,  ///< its connection was closed: its process has ended, or soon will
  kSilent,  ///< it was silent for the peer timeout: it may still run
  kEnded    ///< the rendezvous ended the members' generation
};

/// A lost member, and how the loss was noticed: "its connection was closed", "it has not been
/// heard from for 10 s".
struct LostMember {
  Member member;
  /// Human-readable; programs should use `kind`.
  std::string reason;
  LossKind kind = LossKind::kClosed;
};

/// The processes that train together, from when all have joined until the first leaves or is lost:
/// the list of members, a small key-value store to exchange addresses and the like, and the
/// notification of a loss. The set of members never changes; a job that continues without one forms
/// a new membership of the next generation.
///
/// Code that blocks on a peer registers with `lost_token` and stops waiting when it is cancelled:
/// so a lost peer is an error that names it, everywhere, within the peer timeout.
///
/// Thread-safety: all functions from any thread.
class Membership {
 public:
  virtual ~Membership() = default;

  virtual const Member& self() const = 0;
  /// By rank.
  virtual const std::vector<Member>& members() const = 0;
  virtual int generation() const = 0;

  /// Stores `value` under `key` for all members, replacing an earlier value. Throws kUnavailable,
  /// naming the peer, if the store cannot be reached.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until a member has set `key`, and returns its value. Throws kDeadlineExceeded, naming
  /// the key, after `timeout`; kUnavailable, naming the member, if one is lost meanwhile.
  virtual std::string get(std::string_view key, std::chrono::milliseconds timeout) = 0;
  /// Adds to the number under `key`, 0 at first; returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Appends `value` to the list `key` and returns its number, from 1: members see it under
  /// "<key>/<number>". Atomic, so that every number has a value.
  virtual std::int64_t append(std::string_view key, std::string_view value) = 0;
  /// Waits until every member has reached the barrier of this name. Each name can be used once.
  /// Throws as `get`, naming the missing members.
  virtual void barrier(std::string_view name, std::chrono::milliseconds timeout) = 0;

  /// The first member that was lost. It may be this process, if the others lost it.
  virtual std::optional<LostMember> lost() const = 0;
  /// Cancelled as soon as a member is lost.
  virtual concurrency::CancelToken lost_token() const = 0;

  /// Leaves as planned, which the others do not see as a loss. The destructor calls it too.
  virtual void leave() noexcept = 0;
};

/// The first member that cannot share memory with rank 0 (`same_process_namespace`), and so with
/// some; null if all can. All members get the same result.
const Member* first_without_shared_memory(const Membership& membership);
/// The first member that this one does not reach over the loopback interface
/// (`same_network_namespace`); null if there is none, which is then the same for all members.
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
