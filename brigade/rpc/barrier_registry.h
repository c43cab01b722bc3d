#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/rpc/pending_call.h"

namespace brigade::rpc {

/// The barriers of one generation: who has come to which, and the calls that wait there.
///
/// Thread-safety: none; RendezvousState guards it.
class BarrierRegistry {
 public:
  /// Notes that the waiting call's member has come; with the last of `world_size` members the calls
  /// of all are returned, to be answered. Throws kFailedPrecondition for a barrier that has been
  /// passed, and for a member that waits in it already.
  std::vector<PendingCall> arrive(std::string_view name, PendingCall waiting, std::size_t world_size);
  /// Takes out the calls that `is_over` says so of; their members have not come.
  std::vector<PendingCall> take_if(const std::function<bool(const PendingCall&)>& is_over);
  /// Who waits in the barrier that `what` ("barrier 'end'") names.
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
