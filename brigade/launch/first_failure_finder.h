#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// Finds out which process failed first. When one process dies, the others soon fail because of
/// it, and may even be seen to end earlier, while the shim of the first still cleans up. The order
/// in which the rendezvous lost its members resolves this.
///
/// Thread-safety: one thread at a time.
class FirstFailureFinder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A member's connection broke, or it left. Its exit status will show whether it failed.
  void record_gone(int rank);
  /// A process ended, with or without a failure.
  void record_end(int rank, const ExitStatus& status, Time now);

  /// Whether a failure is known, even if it is not decided yet which one was first.
  bool has_failed() const { return !failures_.empty(); }
  /// The rank that failed first, once that is certain enough: at most three seconds after the
  /// first failure, waiting for the ends of members that were lost earlier.
  std::optional<int> rank(Time now) const;
  /// The time at which `rank` is decided at the latest.
  Time decided_at() const;

 private:
  struct End {
    ExitStatus status;
    Time when;
  };
  std::vector<int> gone_;  // in order of loss, until the first failure
  std::set<int> ended_;
  std::map<int, End> failures_;
  std::optional<Time> first_seen_;
};

}  // namespace brigade::launch
