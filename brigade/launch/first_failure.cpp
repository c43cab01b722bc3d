#include "brigade/launch/first_failure.h"

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kPatience{3};

}  // namespace

void FirstFailure::note_gone(int rank) {
  // One that failed already is not followed by the cause of its failure.
  if (!has_failed()) gone_.push_back(rank);
}

void FirstFailure::note_end(int rank, const ExitStatus& status, Time now) {
  ended_.insert(rank);
  if (status.is_success()) return;
  failures_.emplace(rank, End{status, now});
  if (!first_seen_) first_seen_ = now;
}

FirstFailure::Time FirstFailure::decided_at() const {
  return *first_seen_ + kPatience;
}

std::optional<int> FirstFailure::rank(Time now) const {
  if (failures_.empty()) return std::nullopt;
  for (const int gone : gone_) {
    if (failures_.contains(gone)) return gone;
    if (!ended_.contains(gone) && now < decided_at()) return std::nullopt;
  }
  // Of those seen together, who was killed did not fail because of another.
  std::optional<int> found;
  for (const auto& [rank, end] : failures_) {
    if (end.when != *first_seen_) continue;
    if (!found || (end.status.signal && !failures_.at(*found).status.signal)) found = rank;
  }
  return found;
}

}  // namespace brigade::launch
