#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/byte_pieces.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// Options of RecordWriter.
struct RecordWriterOptions {
  /// Records are buffered in memory up to this many bytes: more costs memory, less costs more
  /// system calls. Buffered records are lost if the program dies.
  std::size_t buffer_bytes = 64 << 10;
};

/// Writes a file of records, each any bytes, in TensorFlow's TFRecord framing: the length, a
/// checksum of the length, the bytes, a checksum of the bytes (docs/formats.md, "Records").
///
/// After a failed write it is unknown how much of a record is in the file, so the writer is
/// unusable: every later call except `close` throws the first error again.
///
/// Thread-safety: one thread at a time.
class RecordWriter {
 public:
  /// Writes to `file` from its current position. Throws kInvalidArgument without a file.
  explicit RecordWriter(std::unique_ptr<WritableFile> file, RecordWriterOptions options = {});
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  /// Flushes and closes, unless `close` was called; errors are ignored.
  ~RecordWriter();

  /// Adds one record. Throws as `WritableFile` does, kFailedPrecondition after `close`.
  void write(std::span<const std::byte> record);
  /// Adds one record, whose bytes are these pieces.
  void write_pieces(const BytePieces& record);
  /// Writes the buffer to the file: everything written so far survives a crash of this program.
  void flush();
  /// Flushes, and returns once everything is on the disk: everything written so far survives a
  /// crash of the machine.
  void sync();
  /// Flushes and closes the file. Calling it again does nothing.
  void close();

 private:
  template <class Action>
  void guarded(Action action);
  void begin_record(std::uint64_t length);
  void end_record(std::uint32_t sum);
  void append(std::span<const std::byte> bytes);
  void drain();

  std::unique_ptr<WritableFile> file_;  // null once closed
  std::size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  std::optional<Error> failure_;
};

}  // namespace brigade::io
