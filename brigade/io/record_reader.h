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

struct RecordReaderOptions {
  /// Longer records are refused: no file can make the reader take more memory than this.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
  /// How the file as a whole is packed.
  Compression compression = Compression::kNone;
  /// Read from the file at a time.
  std::size_t buffer_bytes = 256 << 10;
};

/// Reads a file of records as `RecordWriter` and TensorFlow write them, one after the other. Every
/// byte it hands out has passed its checksum. A file that ends within a record, as a crash of its
/// writer leaves it, is no error: the whole records are read, `is_cut_short` says that more was
/// begun, and if the file grows, `next` goes on.
///
/// Thread-safety: one thread at a time.
class RecordReader {
 public:
  /// Throws as `FileSystem::open` does.
  RecordReader(const FileSystem& files, Path path, RecordReaderOptions options = {});

  /// The next record, or nothing if no further whole one is there (yet). Throws kDataLoss, naming
  /// the file and the offset of the record, if a checksum is wrong; kResourceExhausted if it is
  /// longer than allowed. Either way the reader stays where it is; `skip` may get past the record.
  std::optional<std::string> next();

  /// Passes the next record, whatever its bytes and its length; false if no further whole one is
  /// there (yet). Throws kDataLoss and stays if the checksum of its length is wrong: nothing says
  /// then where the next record begins.
  bool skip();

  /// Goes to the beginning of a record, as `offset` told it. Throws as `ByteReader::seek` does.
  void seek(std::uint64_t offset) { bytes_.seek(offset); }

  /// Where the next record begins, in bytes of content from the beginning of the file.
  std::uint64_t offset() const { return bytes_.offset(); }
  /// Whether the file, as far as `next` or `skip` has seen it, ends with a part of a record.
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
