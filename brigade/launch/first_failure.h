#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// Finds out whose failure was the first. When one process dies, the others fail soon after because
/// of it, and may even be seen to end before it: its shim still clears up. What the rendezvous
/// knows helps: whose connection broke first.
///
/// Thread-safety: one thread at a time.
class FirstFailure {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A member's connection broke.
  void note_lost(int rank);
  /// A process ended, well or not.
  void note_end(int rank, const ExitStatus& status, Time now);

  /// Whether one is known to have failed, though which was first may still be open.
  bool has_failed() const { return !failures_.empty(); }
  /// The rank that failed first, once that is certain enough; waits at most a second for the end of
  /// one whose connection broke.
  std::optional<int> rank(Time now) const;
  /// Until when `rank` may hesitate.
  Time decided_at() const;

 private:
  struct End {
    ExitStatus status;
    Time when;
  };
  std::optional<int> first_lost_;
  std::map<int, bool> ended_;
  std::map<int, End> failures_;
  std::optional<Time> first_seen_;
};

}  // namespace brigade::launch
