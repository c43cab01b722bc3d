#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

/// The barriers of one generation: which members have arrived, and their waiting calls.
///
/// Thread-safety: none; RendezvousState guards it.
class BarrierRegistry {
 public:
  /// Records that the member of this call has arrived. For the last of `world_size` members,
  /// returns the calls of all members, which must be answered. Throws kFailedPrecondition for a
  /// barrier that has been passed, and for a member that already waits in it.
  std::vector<PendingCall> arrive(std::string_view name, PendingCall waiting,
                                  std::size_t world_size);
  /// Removes and returns the calls for which `is_over` is true; their members no longer count as
  /// arrived.
  std::vector<PendingCall> take_if(const std::function<bool(const PendingCall&)>& is_over);
  /// The members that wait in the barrier that `what` ("barrier 'end'") names.
  std::set<MemberId> arrived(std::string_view what) const;
  std::optional<TimePoint> next_deadline() const;
  void clear() { waiting_.clear(), passed_.clear(); }

 private:
  std::map<std::string, std::vector<PendingCall>, std::less<>> waiting_;
  std::set<std::string, std::less<>> passed_;
};

/// "barrier 'end'"
std::string barrier_text(std::string_view name);

}  // namespace brigade::rpc
