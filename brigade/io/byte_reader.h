#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

struct ByteReaderOptions {
  Compression compression = Compression::kNone;
  /// Read from the file at a time. At least 1; what is asked for at once may be more.
  std::size_t buffer_bytes = 256 << 10;
};

/// Reads a file from a buffer: for formats whose parts are small and follow one another. Offsets
/// count bytes of content, after decompression. Views stay valid until the next call.
///
/// Where the file ends, a later call looks again, so a plain file that grows is read on. Throws as
/// `FileSystem::open`, `ReadableFile` and `decompressed` do; the place stays as it was.
///
/// Thread-safety: one thread at a time.
class ByteReader {
 public:
  ByteReader(const FileSystem& files, const Path& path, ByteReaderOptions options = {});

  /// What lies ahead in the buffer: at least `size` bytes, fewer only if the file ends before.
  std::string_view peek(std::size_t size) {
    if (size <= static_cast<std::size_t>(end_ - begin_)) return ahead();
    return fill(size);
  }
  /// Passes `size` bytes, which must lie in the buffer (`peek`).
  void consume(std::size_t size) { begin_ += size; }
  /// Passes `size` bytes. If the file has fewer left, it stays where it is and returns false.
  bool skip(std::uint64_t size);
  /// Goes to a place in the file: at once in a plain file, by decompressing up to there in others.
  /// Throws kOutOfRange, and stays where it was, if the file is shorter than that.
  void seek(std::uint64_t offset);
  /// Where the next byte lies.
  std::uint64_t offset() const { return buffer_offset_ + begin_; }

  /// The next line, without the "\n" or "\r\n" at its end; nothing at the end of the file. The last
  /// line needs no end. Throws kResourceExhausted, naming the file and the offset, if the line is
  /// longer than `max_bytes`, and stays at its beginning.
  std::optional<std::string_view> line(std::size_t max_bytes);
  /// Passes a line of any length; false at the end of the file.
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
  std::size_t begin_ = 0;  // what is read and not consumed lies at [begin_, end_) of buffer_
  std::size_t end_ = 0;
  std::uint64_t buffer_offset_ = 0;  // of buffer_[0] in the content
};

}  // namespace brigade::io
