#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

struct RecordWriterOptions {
  /// Records wait in memory until there are so many bytes of them: more costs memory, less costs a
  /// system call for each few records. What waits is lost when the program dies.
  std::size_t buffer_bytes = 64 << 10;
};

/// Writes a file of records, each any bytes, in TensorFlow's TFRecord framing: the length, a
/// checksum of the length, the bytes, a checksum of the bytes (docs/formats.md, "Records").
///
/// After a failed write nobody knows how much of a record is in the file, so the writer is done
/// for: every later call but `close` throws the first error again.
///
/// Thread-safety: one thread at a time.
class RecordWriter {
 public:
  /// Takes a file to be filled from where it stands. Throws kInvalidArgument without a file.
  explicit RecordWriter(std::unique_ptr<WritableFile> file, RecordWriterOptions options = {});
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  /// Flushes and closes, unless `close` was called; errors are lost.
  ~RecordWriter();

  /// Adds one record. Throws as `WritableFile` does, kFailedPrecondition after `close`.
  void write(std::span<const std::byte> record);
  /// Hands everything to the system: what was written so far outlives this program.
  void flush();
  /// Flushes, and returns once the disk has it: what was written so far outlives the machine's
  /// crash.
  void sync();
  /// Flushes and closes the file. Calling it again does nothing.
  void close();

 private:
  template <class Action>
  void guarded(Action action);
  void append(std::span<const std::byte> bytes);
  void drain();

  std::unique_ptr<WritableFile> file_;  // none once closed
  std::size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  std::optional<Error> failure_;
};

}  // namespace brigade::io
