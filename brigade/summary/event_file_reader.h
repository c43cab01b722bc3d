#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/io/record_reader.h"
#include "brigade/summary/event.h"

namespace brigade::summary {

/// Reads the events of one file, ours or TensorFlow's, in order (TensorFlow: `summary_iterator`). A
/// file whose writer was killed is read up to its last whole event; `is_cut_short` then says that
/// one more was begun. A file still being written is followed: `next` goes on where it has grown.
///
/// Thread-safety: one thread at a time.
class EventFileReader {
 public:
  /// Throws as `FileSystem::open` does.
  EventFileReader(const io::FileSystem& files, io::Path path, io::RecordReaderOptions options = {});

  /// The next event, or nothing if no further whole one is there (yet). Throws as
  /// `RecordReader::next` does, and kDataLoss, naming the file and the offset, if a record is no
  /// event.
  std::optional<Event> next();

  /// Where the next event begins, in bytes from the beginning of the file.
  std::uint64_t offset() const { return records_.offset(); }
  /// Whether the file, as far as `next` has seen it, ends with a part of an event.
  bool is_cut_short() const { return records_.is_cut_short(); }

 private:
  io::Path path_;
  io::RecordReader records_;
};

/// The event files in a folder, in the order of their names, which is the order in which they were
/// begun. Throws as `FileSystem::list` does.
std::vector<io::Path> event_files(const io::FileSystem& files, const io::Path& directory);

}  // namespace brigade::summary
