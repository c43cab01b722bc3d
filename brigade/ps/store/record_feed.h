#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/replica_progress.h"
#include "brigade/io/byte_pieces.h"

namespace brigade::ps {

/// The records of a server's log for its replica: those that it does not have yet, in memory, and
/// who waits until it has them. What waits, and when, `coordination::ReplicaProgress` decides.
///
/// Thread-safety: all functions from any thread.
class RecordFeed {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A replica that catches up, and for which more than `max_bytes` wait, starts over.
  explicit RecordFeed(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// The log has a record, `number`. Shares its bytes, and does not throw: without memory for it,
  /// the replica starts over.
  void append(std::int64_t number, const io::BytePieces& record) noexcept BRIGADE_EXCLUDES(mutex_);
  /// Waits until `number` may be acknowledged. Throws kDeadlineExceeded, kUnavailable once
  /// `interrupt` is called.
  void wait_replicated(std::int64_t number, Time deadline) BRIGADE_EXCLUDES(mutex_);
  bool may_acknowledge(std::int64_t number) const BRIGADE_EXCLUDES(mutex_);

  /// A replica begins that has the records up to `after`. Call it while no record is appended.
  void begin(std::int64_t after) BRIGADE_EXCLUDES(mutex_);
  /// Nothing waits for a replica any longer.
  void drop() BRIGADE_EXCLUDES(mutex_);
  /// The replica has the records up to `number` on its disk. Returns whether it is complete; unset
  /// if it has to start over. Throws kInvalidArgument for records that there are not.
  std::optional<bool> acknowledge(std::int64_t number) BRIGADE_EXCLUDES(mutex_);
  /// Whether acknowledgments wait for the replica.
  bool is_required() const BRIGADE_EXCLUDES(mutex_);

  /// The records after `after`: at least one, and more up to `bytes`. None if there is none by
  /// `until`, if the replica has to start over, or after `interrupt`.
  std::vector<io::BytePieces> take(std::int64_t after, std::uint64_t bytes, Time until)
      BRIGADE_EXCLUDES(mutex_);

  /// Those that wait for the replica throw kUnavailable, until `resume`.
  void interrupt() BRIGADE_EXCLUDES(mutex_);
  void resume() BRIGADE_EXCLUDES(mutex_);

 private:
  void forget_records() BRIGADE_REQUIRES(mutex_);

  const std::uint64_t max_bytes_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  coordination::ReplicaProgress progress_ BRIGADE_GUARDED_BY(mutex_);
  std::deque<io::BytePieces> records_ BRIGADE_GUARDED_BY(mutex_);  // the last ones of the log
  std::uint64_t bytes_ BRIGADE_GUARDED_BY(mutex_) = 0;             // of records_
  bool is_broken_ BRIGADE_GUARDED_BY(mutex_) = false;  // records_ lacks some: it starts over
  bool is_interrupted_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::ps
