#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// Finds out whose failure was the first. When one process dies, the others fail soon after because
/// of it, and may even be seen to end before it: its shim still clears up. What the rendezvous
/// knows helps: who was the first to be gone from there.
///
/// Thread-safety: one thread at a time.
class FirstFailureFinder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A member's connection broke, or it left: by a failure of its own or as planned, its end tells.
  void record_gone(int rank);
  /// A process ended, well or not.
  void record_end(int rank, const ExitStatus& status, Time now);

  /// Whether one is known to have failed, though which was first may still be open.
  bool has_failed() const { return !failures_.empty(); }
  /// The rank that failed first, once that is certain enough; waits at most three seconds for the
  /// ends of those who were gone before.
  std::optional<int> rank(Time now) const;
  /// Until when `rank` may hesitate.
  Time decided_at() const;

 private:
  struct End {
    ExitStatus status;
    Time when;
  };
  std::vector<int> gone_;  // in that order, until the first failure
  std::set<int> ended_;
  std::map<int, End> failures_;
  std::optional<Time> first_seen_;
};

}  // namespace brigade::launch
