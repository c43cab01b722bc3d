#pragma once

#include <cstdint>
#include <map>

#include "brigade/io/state_tree.h"

namespace brigade::coordination {

/// Identifies one push: the `number`-th (from 1) of one life of a worker. A worker that restarts
/// gets a higher `incarnation` and counts from 1 again.
struct PushId {
  int worker = 0;
  std::int64_t incarnation = 0;
  std::int64_t number = 0;
  friend bool operator==(const PushId&, const PushId&) = default;
};

/// What a server does with a push.
enum class PushVerdict {
  kApply,      ///< it is new: apply it, then `record` it
  kDuplicate,  ///< it was applied already: acknowledge it again, change nothing
  kGap,        ///< an earlier push of this worker is missing: the worker sends again from there
  kFenced      ///< a later incarnation of the worker exists: this one was replaced and must end
};

/// Remembers which pushes a server has applied, so that each is applied exactly once even if its
/// acknowledgement is lost and the worker sends it again. A worker's pushes arrive in order, so
/// one number per worker is enough.
///
/// The ledger is part of the server's snapshot: after a restart, snapshot and log together give
/// the ledger that matches the values.
///
/// Thread-safety: one thread.
class PushLedger {
 public:
  /// Says what to do with a push, and changes nothing. Throws kInvalidArgument if an id is negative
  /// or a number is below 1.
  PushVerdict judge(const PushId& push) const;
  /// Counts a push as applied. Throws kFailedPrecondition unless `judge` says kApply.
  void record(const PushId& push);
  /// Lets a new incarnation of a worker push, and fences those before it. An incarnation that is
  /// not newer changes nothing. Throws kInvalidArgument if either is negative.
  void admit(int worker, std::int64_t incarnation);

  /// The latest incarnation of the worker that pushed or was admitted; 0 if none was.
  std::int64_t incarnation(int worker) const;
  /// The number of the worker's last push that was applied; 0 before its first.
  std::int64_t last_applied(int worker) const;

  /// {"<worker>": {"incarnation", "number"}}.
  io::StateTree save() const;
  /// Throws kInvalidArgument for a state that `save` cannot have written, and changes nothing then.
  void restore(const io::StateTree& state);

 private:
  struct Entry {
    std::int64_t incarnation = 0;
    std::int64_t number = 0;
  };
  std::map<int, Entry> workers_;
};

}  // namespace brigade::coordination
