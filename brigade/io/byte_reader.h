#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// Options of ByteReader.
struct ByteReaderOptions {
  Compression compression = Compression::kNone;
  /// Bytes read from the file at a time. At least 1; `peek` may ask for more.
  std::size_t buffer_bytes = 256 << 10;
};

/// Reads a file through a buffer: for formats with small consecutive parts. Offsets count bytes of
/// content, after decompression. Views stay valid until the next call.
///
/// At the end of the file, a later call tries again, so reading continues in a plain file that
/// grows. Throws as `FileSystem::open`, `ReadableFile` and `decompressed` do; the offset is
/// unchanged then.
///
/// Thread-safety: one thread at a time.
class ByteReader {
 public:
  ByteReader(const FileSystem& files, const Path& path, ByteReaderOptions options = {});

  /// The next bytes, without consuming them: at least `size` bytes, fewer only at the end of the
  /// file.
  std::string_view peek(std::size_t size) {
    if (size <= static_cast<std::size_t>(end_ - begin_)) return ahead();
    return fill(size);
  }
  /// Consumes `size` bytes, which must be in the buffer (see `peek`).
  void consume(std::size_t size) { begin_ += size; }
  /// Skips `size` bytes. If the file has fewer left, it skips nothing and returns false.
  bool skip(std::uint64_t size);
  /// Moves to an offset: directly in a plain file, by decompressing up to it in others. Throws
  /// kOutOfRange, and does not move, if the file is shorter.
  void seek(std::uint64_t offset);
  /// The offset of the next byte.
  std::uint64_t offset() const { return buffer_offset_ + begin_; }

  /// The next line, without the "\n" or "\r\n" at its end; nothing at the end of the file. The last
  /// line needs no end. Throws kResourceExhausted, naming the file and the offset, if the line is
  /// longer than `max_bytes`, and stays at the beginning of the line.
  std::optional<std::string_view> line(std::size_t max_bytes);
  /// Skips a line of any length; false at the end of the file.
  bool skip_line();

 private:
  std::string_view ahead() const { return {buffer_.get() + begin_, end_ - begin_}; }
  std::string_view fill(std::size_t size);
  void make_room(std::size_t size);
  void go_to(std::uint64_t offset);

  Path path_;
  bool is_plain_;
  std::unique_ptr<ReadableFile> file_;
  std::size_t piece_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;  // unconsumed bytes are at [begin_, end_) of buffer_
  std::size_t end_ = 0;
  std::uint64_t buffer_offset_ = 0;  // offset of buffer_[0] in the content
};

}  // namespace brigade::io
