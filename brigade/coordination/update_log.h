#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/commit_queue.h"
#include "brigade/coordination/log_segment.h"
#include "brigade/io/byte_pieces.h"
#include "brigade/io/file_system.h"

namespace brigade::coordination {

struct UpdateLogOptions {
  /// A file of the log ends when it has at least this many bytes. Smaller files are removed sooner
  /// after a snapshot; each costs two more syncs.
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  /// Up to this many files that a snapshot covers are kept and used again: their memory and their
  /// blocks on the disk are there already, which makes writing several times as fast.
  std::size_t spare_files = 4;
  /// Longer records are refused.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// Called after each sync, in the thread that made it, with the time that it took. May be empty.
  std::function<void(std::chrono::nanoseconds)> on_sync = {};
};

/// A server's log of the updates since its last snapshot: records, each any bytes, numbered from 1.
/// A record for which `wait_committed` has returned survives the death of the process and of the
/// machine. Records that several threads append at the same time share one write and one sync.
///
///   UpdateLog log(files, folder, snapshot.last_update, redo);
///   const auto number = log.append(record);  // in the order in which updates are applied
///   log.wait_committed(number, deadline);    // then acknowledge
///
/// The folder holds files of records ("records-00000000000000000001", docs/formats.md), each named
/// after the number of its first record. A crash may cut the last one short; the records lost there
/// were not committed.
///
/// Thread-safety: all functions from any thread. It starts no thread: a thread that waits for its
/// record writes and syncs what all have appended.
class UpdateLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Receives a record of an earlier run.
  using Replay = ReceiveRecord;

  /// Opens the log in `folder`, which is created if it is missing, and calls `replay` for each
  /// record with a number above `after`, in order. New records follow the last one. Throws
  /// kDataLoss, naming the file, if records between `after` and the last one are missing or
  /// damaged; and what `replay` and the file system throw. What is replayed is on the disk: the
  /// last file, which the earlier run may not have synced, is written again first. `files` must
  /// outlive the log.
  UpdateLog(io::FileSystem& files, io::Path folder, std::int64_t after, const Replay& replay,
            const UpdateLogOptions& options = {});
  ~UpdateLog();
  UpdateLog(const UpdateLog&) = delete;
  UpdateLog& operator=(const UpdateLog&) = delete;

  /// Adds a record and returns its number. It is in memory only until `wait_committed`. Throws
  /// kInvalidArgument if it is longer than allowed, kDataLoss if the log has failed.
  /// The record's bytes must not change before `wait_committed` has returned for it, or thrown: the
  /// log does not copy them.
  std::int64_t append(io::BytePieces record) BRIGADE_EXCLUDES(mutex_);
  /// The number of the record that was appended last; `after` if there is none.
  std::int64_t appended() const BRIGADE_EXCLUDES(mutex_);

  /// Writes the records that wait, so that the disk begins with them while the caller does
  /// something else before `wait_committed`. Does nothing if another thread writes or syncs. Throws
  /// the file system's error; the log has then failed.
  void write_pending() BRIGADE_EXCLUDES(mutex_);

  /// Returns once the record is on the disk, with all before it. Throws kDeadlineExceeded at
  /// `deadline` if another thread's sync takes longer, the file system's error in the thread whose
  /// sync failed, and kDataLoss in all others. A sync that this thread makes itself cannot be
  /// interrupted, nor can another thread's write of the record: it uses the record's bytes.
  void wait_committed(std::int64_t number, Time deadline) BRIGADE_EXCLUDES(mutex_);

  /// Whether a sync has failed: the log takes no more records.
  bool has_failed() const BRIGADE_EXCLUDES(mutex_);

  /// Removes the files whose records are all numbered up to `number`, those that a snapshot has, or
  /// keeps them to be used again. The file that is being written stays.
  void remove_up_to(std::int64_t number) BRIGADE_EXCLUDES(mutex_);

  /// The number of the last record that is on the disk; `after` if there is none.
  std::int64_t committed() const BRIGADE_EXCLUDES(mutex_);

 private:
  std::int64_t replay_segments(std::span<const LogSegment> segments, std::int64_t after,
                               const Replay& replay);
  template <class Work>
  void use_segment(const Work& work) BRIGADE_EXCLUDES(mutex_);
  void write(const std::vector<io::BytePieces>& records, std::int64_t last)
      BRIGADE_EXCLUDES(mutex_);
  void write_and_sync(const std::vector<io::BytePieces>& records, std::int64_t last)
      BRIGADE_EXCLUDES(mutex_);
  std::optional<std::string> next_spare() BRIGADE_EXCLUDES(mutex_);
  std::optional<std::string> take_spare() BRIGADE_REQUIRES(mutex_);
  void begin_segment(std::int64_t first, const std::optional<std::string>& spare);
  void stop_sharing(std::int64_t number) BRIGADE_REQUIRES(mutex_);

  io::FileSystem& files_;
  const io::Path folder_;
  const UpdateLogOptions options_;

  // The file being written: used by the thread that writes or syncs, of which CommitQueue allows
  // one.
  std::unique_ptr<SegmentWriter> segment_;

  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  CommitQueue queue_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<io::BytePieces> waiting_
      BRIGADE_GUARDED_BY(mutex_);                                // the last records, to be written
  std::int64_t written_ BRIGADE_GUARDED_BY(mutex_) = 0;          // the last record in the file
  std::vector<LogSegment> segments_ BRIGADE_GUARDED_BY(mutex_);  // ascending; the last is written
  std::vector<std::string> spares_ BRIGADE_GUARDED_BY(mutex_);   // names of files to be used again
};

}  // namespace brigade::coordination
