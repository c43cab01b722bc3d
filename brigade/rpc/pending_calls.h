#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

/// The calls that wait, each for something with a name: a key, a barrier.
///
/// Thread-safety: none; RendezvousState guards it.
class PendingCalls {
 public:
  void add(std::string_view name, PendingCall call) { calls_.emplace(name, std::move(call)); }
  /// The members whose calls wait for `name`, in the order of arrival.
  std::vector<MemberId> members(std::string_view name) const;
  /// Removes and returns the calls that wait for `name`, in the order of arrival.
  std::vector<PendingCall> take(std::string_view name);
  /// Removes and returns the calls for which `is_over` is true.
  std::vector<PendingCall> take_if(const std::function<bool(const PendingCall&)>& is_over);
  std::optional<TimePoint> next_deadline() const;
  void clear() { calls_.clear(); }

 private:
  std::multimap<std::string, PendingCall, std::less<>> calls_;
};

}  // namespace brigade::rpc
