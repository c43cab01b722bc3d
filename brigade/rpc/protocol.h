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
#include "brigade/rpc/rank_taken.h"

namespace brigade::rpc {

/// Raised whenever rendezvous.proto changes: programs of different versions do not meet.
inline constexpr int kProtocolVersion = 4;

/// What the meeting point calls an accepted member; never given twice, across generations.
using MemberId = std::int64_t;

/// Who makes a call of the store. The token is told to the member alone when it is accepted: a
/// number can be guessed, a token cannot.
struct Credential {
  MemberId id = 0;
  std::string token = {};
};

/// What a process says of itself when it comes.
struct Hello {
  int protocol = kProtocolVersion;
  cluster::Member member;
  int world_size = 1;
  int generation = 0;
  /// How long it waits for the others, and how long it has done so.
  std::chrono::milliseconds start_timeout{0};
  std::chrono::milliseconds waited{0};
};

/// It was accepted.
struct Welcome {
  Credential credential = {};
  std::chrono::milliseconds peer_timeout{0};
  /// Whose process the meeting point lives in: rank 0, or the launcher with rank -1.
  cluster::Member host;
};
/// Everybody has come.
struct AllJoined {
  std::vector<cluster::Member> members;
};
/// The answer to a beat, with the ranks that have not come yet.
struct Heard {
  std::vector<int> missing = {};
};

using Event = std::variant<Welcome, AllJoined, Heard, cluster::LostMember>;

/// Why a membership ended.
struct MembershipEnd {
  /// Unset: as planned.
  std::optional<Error> error = std::nullopt;
  /// Coming again later may help.
  bool may_retry = false;
  /// Ranks that did not come to the start, after so much time: the error again, for a text that
  /// knows their addresses.
  std::vector<int> missing = {};
  std::chrono::milliseconds waited{0};
  /// Refused because another process has, or had, the rank.
  std::optional<RankHolder> rank_holder = std::nullopt;
};

/// What came of a call that may have waited: a value or an error.
struct CallResult {
  std::optional<Error> error = std::nullopt;
  std::string value = {};
};
using Reply = std::function<void(const CallResult&)>;

/// Where a member hears of what happens. Calls come one at a time; none comes after `on_end`. They
/// must not block.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const Event& event) = 0;
  virtual void on_end(const MembershipEnd& ending) = 0;
};

}  // namespace brigade::rpc
