#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/io/file_system.h"
#include "brigade/io/record_reader.h"
#include "brigade/summary/event.h"

namespace brigade::summary {

/// Reads the events of one file, written by Brigade or TensorFlow, in order (TensorFlow:
/// `summary_iterator`). A file whose writer was killed is read up to its last complete event;
/// `is_cut_short` then reports the incomplete one. A file that is still being written can be
/// followed: `next` continues when it has grown.
///
/// Thread-safety: one thread at a time.
class EventFileReader {
 public:
  /// Throws as `FileSystem::open` does.
  EventFileReader(const io::FileSystem& files, io::Path path, io::RecordReaderOptions options = {});

  /// The next event, or nothing if there is no further complete one (yet). Throws as
  /// `RecordReader::next` does, and kDataLoss, naming the file and the offset, if a record is not
  /// an event.
  std::optional<Event> next();

  /// The offset of the next event, in bytes from the beginning of the file.
  std::uint64_t offset() const { return records_.offset(); }
  /// Whether the file, as far as `next` has read it, ends with an incomplete event.
  bool is_cut_short() const { return records_.is_cut_short(); }

 private:
  io::Path path_;
  io::RecordReader records_;
};

/// The event files in a folder, sorted by name, which is the order of their creation. Throws as
/// `FileSystem::list` does.
std::vector<io::Path> event_files(const io::FileSystem& files, const io::Path& directory);

}  // namespace brigade::summary
