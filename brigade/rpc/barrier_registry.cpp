#include "brigade/rpc/barrier_registry.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {

std::string barrier_text(std::string_view name) {
  return base::str_cat("barrier '", name, "'");
}

std::vector<PendingCall> BarrierRegistry::arrive(std::string_view name, PendingCall waiting,
                                                 std::size_t world_size) {
  const std::string what = barrier_text(name);
  if (passed_.contains(what)) {
    throw Error(ErrorCode::kFailedPrecondition,
                base::str_cat("All members have passed ", what,
                              " before; each name can be used once, so add a number to it."));
  }
  auto& here = waiting_[what];
  if (std::ranges::any_of(here, [&](const PendingCall& w) { return w.member == waiting.member; })) {
    throw Error(ErrorCode::kFailedPrecondition,
                base::str_cat("This process waits in ", what, " already, on another thread."));
  }
  here.push_back(std::move(waiting));
  if (here.size() < world_size) return {};
  std::vector<PendingCall> all = std::move(here);
  waiting_.erase(what);
  passed_.insert(what);
  return all;
}

std::vector<PendingCall> BarrierRegistry::take_if(
    const std::function<bool(const PendingCall&)>& is_over) {
  std::vector<PendingCall> taken;
  for (auto& [what, here] : waiting_) {
    const auto split = std::stable_partition(here.begin(), here.end(),
                                             [&](const PendingCall& w) { return !is_over(w); });
    std::move(split, here.end(), std::back_inserter(taken));
    here.erase(split, here.end());
  }
  return taken;
}

std::set<MemberId> BarrierRegistry::arrived(std::string_view what) const {
  std::set<MemberId> members;
  const auto it = waiting_.find(what);
  if (it == waiting_.end()) return members;
  for (const PendingCall& waiting : it->second) members.insert(waiting.member);
  return members;
}

std::optional<TimePoint> BarrierRegistry::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [what, here] : waiting_) {
    for (const PendingCall& waiting : here) {
      next = next ? std::min(*next, waiting.deadline) : waiting.deadline;
    }
  }
  return next;
}

}  // namespace brigade::rpc
