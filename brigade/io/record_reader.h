#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/io/byte_reader.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// Options of RecordReader.
struct RecordReaderOptions {
  /// Longer records are refused: this limits the reader's memory.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// The compression of the file.
  Compression compression = Compression::kNone;
  /// Bytes read from the file at a time.
  std::size_t buffer_bytes = 256 << 10;
};

/// Reads the records of a file written by `RecordWriter` or TensorFlow in order. Every returned
/// byte has passed its checksum. A file that ends within a record, as after a crash of its writer,
/// is not an error: the complete records are read, `is_cut_short` reports the incomplete one, and
/// if the file grows, `next` continues.
///
/// Thread-safety: one thread at a time.
class RecordReader {
 public:
  /// Throws as `FileSystem::open` does.
  RecordReader(const FileSystem& files, Path path, RecordReaderOptions options = {});

  /// The next record, or nothing if there is no further complete record (yet). Throws kDataLoss,
  /// naming the file and the offset of the record, if a checksum is wrong; kResourceExhausted if it
  /// is longer than allowed. In both cases the reader does not move; `skip` may get past the
  /// record.
  std::optional<std::string> next();

  /// Skips the next record, whatever its bytes and its length; false if there is no further
  /// complete record (yet). Throws kDataLoss and does not move if the checksum of the length is
  /// wrong: then the start of the next record is unknown.
  bool skip();

  /// Moves to the beginning of a record, at a value of `offset`. Throws as `ByteReader::seek` does.
  void seek(std::uint64_t offset) { bytes_.seek(offset); }

  /// The start of the next record, in bytes of content from the beginning of the file.
  std::uint64_t offset() const { return bytes_.offset(); }
  /// Whether the file, as far as `next` or `skip` has read it, ends with an incomplete record.
  bool is_cut_short() const { return is_cut_short_; }

 private:
  std::string_view peek(std::uint64_t size);
  std::uint64_t checked_length(std::string_view head) const;
  void check_allowed(std::uint64_t length) const;
  [[noreturn]] void fail_sum(std::string_view part) const;

  Path path_;
  std::uint64_t max_record_bytes_;
  ByteReader bytes_;
  bool is_cut_short_ = false;
};

}  // namespace brigade::io
