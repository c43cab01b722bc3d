#pragma once

#include <chrono>
#include <string>

#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

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

}  // namespace brigade::rpc
