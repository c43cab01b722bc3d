#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::io {

struct RecordReaderOptions {
  /// Longer records are refused: no file can make the reader take more memory than this.
  std::uint64_t max_record_bytes = std::uint64_t{1} << 30;
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
  /// longer than allowed. Either way the reader stays where it is, for nothing says where the next
  /// record begins.
  std::optional<std::string> next();

  /// Where the next record begins, in bytes from the beginning of the file.
  std::uint64_t offset() const { return offset_; }
  /// Whether the file, as far as `next` has seen it, ends with a part of a record.
  bool is_cut_short() const { return !pending_.empty(); }

 private:
  bool fill(std::uint64_t size);
  std::uint64_t checked_length() const;
  [[noreturn]] void fail_sum(std::string_view part) const;

  Path path_;
  RecordReaderOptions options_;
  std::unique_ptr<ReadableFile> file_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> pending_;  // what was read of the record at offset_
};

}  // namespace brigade::io
