#pragma once

#include <chrono>
#include <string>

#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

using TimePoint = std::chrono::steady_clock::time_point;

// Far enough for every wait, near enough to be added to a time.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

/// A call of a member's that waits at the meeting point.
struct PendingCall {
  MemberId member = 0;
  /// What for: "key 'a'", "barrier 'end'".
  std::string what;
  std::chrono::milliseconds timeout{0};
  TimePoint deadline;
  Reply reply;
};

}  // namespace brigade::rpc
