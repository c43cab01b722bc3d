#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/byte_pieces.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_writer.h"

namespace brigade::coordination {

/// A file of an UpdateLog (docs/formats.md). Internal.
///
/// A file that a snapshot covers may be used again: it gets a new name, and new records replace the
/// old ones from the beginning. So each record begins with its number, which distinguishes it from
/// an old one that follows the last new one. Files of earlier versions were not used again, and
/// their records have no numbers.
struct LogSegment {
  std::int64_t first = 1;   ///< the number of its first record
  bool has_numbers = true;  ///< whether its records begin with their numbers

  std::string file_name() const;
  /// The name of the file when it waits to be used again.
  std::string spare_name() const;
};

/// What a log's folder holds.
struct LogFolder {
  std::vector<LogSegment> segments;  ///< by their first records, ascending
  std::vector<std::string> spares;   ///< names of files that wait to be used again
};
/// Other files are left out. Throws as `FileSystem::list`.
LogFolder list_log_folder(const io::FileSystem& files, const io::Path& folder);

/// Receives a record.
using ReceiveRecord = std::function<void(std::int64_t number, std::string_view record)>;

struct SegmentEnd {
  std::int64_t last = 0;  ///< the number of the last record; one before the first if there is none
  /// Whether it ends with bytes that a crash alone does not explain: the file was not used again,
  /// or later records follow.
  bool is_damaged = false;
};

/// Reads the records of a file up to its end, or to the first one that a crash left incomplete:
/// sectors that were not synced may hold anything. Whether a record that matters is lost is seen by
/// the numbers: the next file begins where this one was known to end. Throws kResourceExhausted for
/// a record of more than `max_record_bytes`, and as `FileSystem` and `receive`.
SegmentEnd read_segment(const io::FileSystem& files, const io::Path& folder,
                        const LogSegment& segment, std::uint64_t max_record_bytes,
                        const ReceiveRecord& receive);

/// Writes the records of a file again. Those that a process wrote and did not live to sync may be in
/// memory alone, and after a failed sync they may seem to be on the disk. A damaged file is kept
/// aside: it may hold more than a crash explains.
void rewrite_segment(io::FileSystem& files, const io::Path& folder, const LogSegment& segment,
                     std::uint64_t max_record_bytes);

/// A file of the log, being written.
class SegmentWriter {
 public:
  /// `path` may be a file to be used again.
  SegmentWriter(io::FileSystem& files, const io::Path& path);

  void write(std::int64_t number, const io::BytePieces& record);
  void sync() { writer_.sync(); }
  void close() { writer_.close(); }
  /// Of the records.
  std::uint64_t bytes() const { return bytes_; }

 private:
  io::RecordWriter writer_;
  std::uint64_t bytes_ = 0;
};

}  // namespace brigade::coordination
