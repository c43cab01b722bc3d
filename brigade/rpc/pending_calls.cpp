#include "brigade/rpc/pending_calls.h"

#include <algorithm>
#include <utility>

namespace brigade::rpc {

std::vector<MemberId> PendingCalls::members(std::string_view name) const {
  std::vector<MemberId> members;
  const auto [first, last] = calls_.equal_range(name);
  for (auto it = first; it != last; ++it) members.push_back(it->second.member);
  return members;
}

std::vector<PendingCall> PendingCalls::take(std::string_view name) {
  std::vector<PendingCall> taken;
  const auto [first, last] = calls_.equal_range(name);
  for (auto it = first; it != last; ++it) taken.push_back(std::move(it->second));
  calls_.erase(first, last);
  return taken;
}

std::vector<PendingCall> PendingCalls::take_if(
    const std::function<bool(const PendingCall&)>& is_over) {
  std::vector<PendingCall> taken;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (!is_over(it->second)) {
      ++it;
      continue;
    }
    taken.push_back(std::move(it->second));
    it = calls_.erase(it);
  }
  return taken;
}

std::optional<TimePoint> PendingCalls::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [name, call] : calls_)
    next = next ? std::min(*next, call.deadline) : call.deadline;
  return next;
}

}  // namespace brigade::rpc
