#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::coordination {

/// One life of a task: "worker:1" gets a higher incarnation each time that its program starts.
struct Incarnation {
  std::string task;
  std::int64_t number = 0;
  friend bool operator==(const Incarnation&, const Incarnation&) = default;
};

/// Which tasks of a job are alive: each holds a lease that it renews; a task that does not renew
/// its lease in time is lost. The loss of one task does not affect others. A task that returns, or
/// wakes up after it was declared lost or replaced, needs a new lease with a new incarnation; calls
/// with the old one are refused, so that two lives of one task never act at the same time.
///
/// Time is passed in, so that tests need no clock.
///
/// Thread-safety: one thread.
class LeaseTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Leases last for `term` unless they are renewed. Throws kInvalidArgument unless it is positive.
  explicit LeaseTable(std::chrono::milliseconds term);

  /// Gives `task` a lease with the next incarnation, from 1. A lease that it holds ends, without
  /// being reported by `expire`: the new incarnation says that the old one is gone.
  Incarnation grant(const std::string& task, Time now);
  /// Gives `holder` a lease on the incarnation that it has: after a restart of the table, at a
  /// table that did not give it, or after its lease has ended. False, and nothing changes, if the
  /// task has a later incarnation. Throws kInvalidArgument below 1.
  bool reclaim(const Incarnation& holder, Time now);
  /// Extends a lease to `now` plus the term: true, or false if it ended or was replaced. Then the
  /// task's program must stop what it does.
  bool renew(const Incarnation& holder, Time now);
  /// Ends a lease before its time, of a task that has finished. One that is not held changes
  /// nothing.
  void release(const Incarnation& holder);
  /// The tasks whose leases have ended since the last call, each once.
  std::vector<Incarnation> expire(Time now);

  bool is_held(const Incarnation& holder) const;
  /// When `expire` has to be called next; unset without leases.
  std::optional<Time> next_expiry() const;
  /// The tasks that hold leases, in the order of their names.
  std::vector<Incarnation> holders() const;

  /// The incarnations given so far, {"<task>": number}: who keeps them over a restart never gives
  /// one twice. Leases themselves are not kept: after a restart all tasks ask again.
  io::StateTree save() const;
  /// Throws kInvalidArgument for a state that `save` cannot have written, and changes nothing then.
  void restore(const io::StateTree& state);

 private:
  struct Entry {
    std::int64_t incarnation = 0;
    std::optional<Time> expires;  // unset: not held
  };
  std::chrono::milliseconds term_;
  std::map<std::string, Entry> tasks_;
};

}  // namespace brigade::coordination
