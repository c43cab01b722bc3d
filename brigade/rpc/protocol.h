#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::rpc {

/// Incremented whenever rendezvous.proto changes. Programs of different versions refuse each other.
inline constexpr int kProtocolVersion = 4;

/// The id that the rendezvous gives an accepted member. It is unique across generations.
using MemberId = std::int64_t;

/// Identifies the caller of the store. Only the member itself gets the token, when it is accepted:
/// ids can be guessed, tokens cannot.
struct Credential {
  MemberId id = 0;
  std::string token = {};
};

/// The first message of a process that joins.
struct Hello {
  int protocol = kProtocolVersion;
  cluster::Member member;
  int world_size = 1;
  int generation = 0;
  /// How long it waits for the others, and how long it has waited so far.
  std::chrono::milliseconds start_timeout{0};
  std::chrono::milliseconds waited{0};
};

/// The process was accepted.
struct Welcome {
  Credential credential = {};
  std::chrono::milliseconds peer_timeout{0};
  /// The process that serves the rendezvous: rank 0, or the launcher with rank -1.
  cluster::Member host;
};
/// All members have joined.
struct AllJoined {
  std::vector<cluster::Member> members;
};
/// The answer to a heartbeat, with the ranks that have not joined yet.
struct HeartbeatReply {
  std::vector<int> missing = {};
};

using RendezvousEvent = std::variant<Welcome, AllJoined, HeartbeatReply, cluster::LostMember>;

/// Why a membership ended.
struct MembershipEnd {
  /// Unset: as planned.
  std::optional<Error> error = std::nullopt;
  /// Whether joining again later may succeed.
  bool may_retry = false;
  /// The ranks that did not join in time, and that time: for a message that names their addresses.
  std::vector<int> missing = {};
  std::chrono::milliseconds waited{0};
  /// Refused because another process has, or had, the rank.
  std::optional<RankHolder> rank_holder = std::nullopt;
};

/// The result of a call that may have waited: a value or an error.
struct CallResult {
  std::optional<Error> error = std::nullopt;
  std::string value = {};
};
using Reply = std::function<void(const CallResult&)>;

using TimePoint = std::chrono::steady_clock::time_point;

// Long enough for every wait, short enough not to overflow when added to a time.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

/// A member's call that waits for its answer.
struct PendingCall {
  MemberId member = 0;
  /// What it waits for: "key 'a'", "barrier 'end'".
  std::string what;
  std::chrono::milliseconds timeout{0};
  TimePoint deadline;
  Reply reply;
};

/// Receives the events of a member. Calls are made one at a time, none after `on_end`, and must not
/// block.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const RendezvousEvent& event) = 0;
  virtual void on_end(const MembershipEnd& ending) = 0;
};

}  // namespace brigade::rpc
