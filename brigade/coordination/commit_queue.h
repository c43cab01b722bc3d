#pragma once

#include <cstdint>
#include <optional>

namespace brigade::coordination {

/// Decides when records of a log are safe on disk. Several records share one sync ("group
/// commit"): while one sync runs, records that arrive wait for the next. A record is acknowledged
/// only when it is committed.
///
///   const auto record = queue.append();         // it waits to be written
///   if (const auto last = queue.begin_sync())   // nobody else syncs now
///     write_and_sync(), queue.finish_sync();    // records up to `last` are committed
///
/// Thread-safety: one thread at a time; the caller's lock guards it, and is not held while the file
/// syncs.
class CommitQueue {
 public:
  /// The first new record has the number `committed` + 1. Throws kInvalidArgument if it is
  /// negative.
  explicit CommitQueue(std::int64_t committed = 0);

  /// Returns the number of a new record, from 1 and without gaps. Throws kDataLoss after
  /// `fail_sync`.
  std::int64_t append();
  /// Begins a sync if there is a record that is not committed and no sync runs: the number of the
  /// last record that it will commit.
  std::optional<std::int64_t> begin_sync();
  /// The sync that began last has succeeded. Throws kFailedPrecondition if none runs.
  void finish_sync();
  /// The sync that began last is not made: its records are in the file, and a later sync commits
  /// them. Throws kFailedPrecondition if none runs.
  void postpone_sync();
  /// The sync that began last has failed. Its records and all later ones are never committed: what
  /// the disk holds of them is unknown, and a second fsync may claim success for pages that were
  /// dropped.
  void fail_sync();

  std::int64_t appended() const { return appended_; }
  std::int64_t committed() const { return committed_; }
  bool is_committed(std::int64_t record) const { return record <= committed_; }
  bool has_failed() const { return has_failed_; }

 private:
  std::int64_t appended_;
  std::int64_t committed_;
  std::optional<std::int64_t> syncing_;  // the last record of the sync that runs
  bool has_failed_ = false;
};

}  // namespace brigade::coordination
