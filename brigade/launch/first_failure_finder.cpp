#include "brigade/launch/first_failure_finder.h"

#include <algorithm>

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kReportPatience{3};
// The shim of a killed process may still clean up when others that fail because of it have ended.
constexpr std::chrono::milliseconds kSettling{100};

}  // namespace

void FirstFailureFinder::record_gone(int rank) {
  // Members that are lost after the first failure cannot be its cause.
  if (!has_failed()) gone_.push_back(rank);
}

void FirstFailureFinder::record_end(int rank, const ExitStatus& status, Time now) {
  ended_.insert(rank);
  if (status.is_success()) return;
  failures_.emplace(rank, End{status, now});
  if (!first_seen_) first_seen_ = now;
}

FirstFailureFinder::Time FirstFailureFinder::decided_at() const {
  const bool awaits_gone =
      std::ranges::any_of(gone_, [this](int rank) { return !ended_.contains(rank); });
  if (awaits_gone) return *first_seen_ + kReportPatience;
  return *first_seen_ + kSettling;
}

std::optional<int> FirstFailureFinder::rank(Time now) const {
  if (failures_.empty()) return std::nullopt;
  for (const int gone : gone_) {
    if (failures_.contains(gone)) return gone;
    if (!ended_.contains(gone) && now < decided_at()) return std::nullopt;
  }
  // Among failures seen together, a killed process did not fail because of another.
  const Time settled = *first_seen_ + kSettling;
  std::optional<int> found;
  for (const auto& [rank, end] : failures_) {
    const bool is_killed = end.status.signal.has_value();
    if (end.when != *first_seen_ && !(is_killed && end.when < settled)) continue;
    if (!found || (is_killed && !failures_.at(*found).status.signal)) found = rank;
  }
  if (now < settled && !failures_.at(*found).status.signal) return std::nullopt;
  return found;
}

}  // namespace brigade::launch
