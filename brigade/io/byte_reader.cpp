#include "brigade/io/byte_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "brigade/base/error.h"

namespace brigade::io {

ByteReader::ByteReader(const FileSystem& files, const Path& path, ByteReaderOptions options)
    : path_(path),
      is_plain_(options.compression == Compression::kNone),
      file_(decompressed(files.open(path), path.string(), options.compression)),
      piece_(options.buffer_bytes),
      capacity_(options.buffer_bytes) {
  check_argument(piece_ >= 1, "ByteReader: buffer_bytes is 0; it must be 1 or more");
  buffer_ = std::make_unique_for_overwrite<char[]>(capacity_);
}

/// Makes space after end_ when there is none: drops consumed bytes, or doubles the buffer. So a
/// size that exceeds the file costs no memory.
void ByteReader::make_room(std::size_t size) {
  const std::size_t kept = end_ - begin_;
  if (kept == capacity_) {
    const std::size_t larger = std::min(2 * capacity_, std::max(size, capacity_ + 1));
    auto buffer = std::make_unique_for_overwrite<char[]>(larger);
    std::memcpy(buffer.get(), buffer_.get() + begin_, kept);
    buffer_ = std::move(buffer);
    capacity_ = larger;
  } else {
    std::memmove(buffer_.get(), buffer_.get() + begin_, kept);
  }
  buffer_offset_ += begin_;
  begin_ = 0;
  end_ = kept;
}

std::string_view ByteReader::fill(std::size_t size) {
  while (end_ - begin_ < size) {
    if (begin_ > 0 || end_ == capacity_) make_room(size);
    const std::span room(buffer_.get() + end_, capacity_ - end_);
    const std::size_t got = file_->read(std::as_writable_bytes(room));
    end_ += got;
    if (got == 0) break;
  }
  return ahead();
}

void ByteReader::go_to(std::uint64_t offset) {
  begin_ = end_ = 0;
  buffer_offset_ = offset;
  file_->seek(offset);
}

bool ByteReader::skip(std::uint64_t size) {
  if (size <= end_ - begin_) {
    begin_ += size;
    return true;
  }
  const std::uint64_t start = offset();
  if (is_plain_ && size > piece_) {  // if the last byte exists, so do those before it
    go_to(start + size - 1);
    if (peek(1).empty()) {
      go_to(start);
      return false;
    }
    consume(1);
    return true;
  }
  for (std::uint64_t left = size; left > 0;) {
    const std::size_t piece = std::min<std::uint64_t>(left, peek(1).size());
    if (piece == 0) {
      go_to(start);
      return false;
    }
    consume(piece);
    left -= piece;
  }
  return true;
}

void ByteReader::seek(std::uint64_t offset) {
  if (offset >= buffer_offset_ && offset <= buffer_offset_ + end_) {
    begin_ = static_cast<std::size_t>(offset - buffer_offset_);
    return;
  }
  const std::uint64_t start = this->offset();
  if (offset == 0) return go_to(0);
  go_to(offset - 1);
  if (!peek(1).empty()) return consume(1);
  go_to(start);
  throw Error(ErrorCode::kOutOfRange, path_, ": has no byte ", offset - 1,
              ": it is shorter than it was, or another file");
}

std::optional<std::string_view> ByteReader::line(std::size_t max_bytes) {
  std::size_t searched = 0;
  while (true) {
    const std::string_view seen = peek(searched + 1);
    const std::size_t end = seen.find('\n', searched);
    const bool is_last = end == std::string_view::npos && seen.size() == searched;
    if (is_last && seen.empty()) return std::nullopt;
    std::string_view line = seen.substr(0, end);
    if (end != std::string_view::npos && line.ends_with('\r')) line.remove_suffix(1);
    const bool is_whole = is_last || end != std::string_view::npos;
    // One more than allowed may be a '\r' whose '\n' is not there yet.
    if (line.size() > max_bytes && (is_whole || line.size() - 1 > max_bytes)) {
      throw Error(ErrorCode::kResourceExhausted, path_, ": the line at byte ", offset(),
                  " has more than the ", max_bytes,
                  " bytes allowed: is it a file of text? If so, raise the limit");
    }
    if (is_whole) {
      consume(is_last ? seen.size() : end + 1);
      return line;
    }
    searched = seen.size();
  }
}

bool ByteReader::skip_line() {
  if (peek(1).empty()) return false;
  while (true) {
    const std::string_view seen = peek(1);
    if (seen.empty()) return true;
    const std::size_t end = seen.find('\n');
    consume(end == std::string_view::npos ? seen.size() : end + 1);
    if (end != std::string_view::npos) return true;
  }
}

}  // namespace brigade::io
