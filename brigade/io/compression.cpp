#include "brigade/io/compression.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

class Compressor final : public WritableFile {
 public:
  Compressor(std::unique_ptr<WritableFile> file, Compression compression,
             const CompressorOptions& options)
      : file_(std::move(file)), compressed_(std::max<std::size_t>(options.buffer_bytes, 64)) {
    const int window = compression == Compression::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
    constexpr int kUsualMemory = 8;
    if (deflateInit2(&stream_, options.level, Z_DEFLATED, window, kUsualMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw Error(ErrorCode::kResourceExhausted, "no memory to compress a file");
    }
    empty();
  }
  ~Compressor() override { deflateEnd(&stream_); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t piece =
          std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream_.next_in =
          const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));  // zlib only reads it
      stream_.avail_in = static_cast<uInt>(piece);
      while (stream_.avail_in > 0) {
        deflate(&stream_, Z_NO_FLUSH);
        if (stream_.avail_out == 0) write_compressed();
      }
      bytes = bytes.subspan(piece);
    }
  }
  void sync() override {
    push(Z_SYNC_FLUSH);
    file_->sync();
  }
  void close() override {
    push(Z_FINISH);
    file_->close();
  }

 private:
  /// Until zlib has no output left, which it shows by not filling the buffer.
  void push(int flush) {
    while (true) {
      deflate(&stream_, flush);
      const bool is_all = stream_.avail_out > 0;
      write_compressed();
      if (is_all) return;
    }
  }
  void write_compressed() {
    file_->write(std::span(compressed_).first(compressed_.size() - stream_.avail_out));
    empty();
  }
  void empty() {
    stream_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
    stream_.avail_out = static_cast<uInt>(compressed_.size());
  }

  std::unique_ptr<WritableFile> file_;
  z_stream stream_{};
  std::vector<std::byte> compressed_;
};

class Decompressor final : public ReadableFile {
 public:
  Decompressor(std::unique_ptr<ReadableFile> file, std::string name, Compression compression)
      : file_(std::move(file)), name_(std::move(name)), compression_(compression) {
    const int window = compression == Compression::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
    if (inflateInit2(&stream_, window) != Z_OK) fail_memory();
  }
  ~Decompressor() override { inflateEnd(&stream_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  std::size_t read(std::span<std::byte> buffer) override {
    std::size_t filled = 0;
    try {
      while (filled < buffer.size() && has_more()) {
        filled += inflate_into(buffer.subspan(filled));
      }
    } catch (const Error&) {
      if (filled == 0) throw;  // the content before it is valid, and the next call fails again
    }
    return filled;
  }

  void seek(std::uint64_t offset) override {
    if (offset < produced_) restart();
    std::vector<std::byte> passed(kPiece);
    while (produced_ < offset) {
      const std::size_t wanted = std::min<std::uint64_t>(kPiece, offset - produced_);
      if (read(std::span(passed).first(wanted)) < wanted) return;
    }
  }

 private:
  static constexpr std::size_t kPiece = 1 << 16;

  void restart() {
    file_->seek(0);
    inflateReset(&stream_);
    stream_.avail_in = 0;
    produced_ = 0;
    is_between_members_ = false;
    broken_ = Z_OK;
  }

  /// Whether there is more content, as far as the compressed bytes show. Between members, where a
  /// file may end, they do.
  bool has_more() {
    if (!is_between_members_) return true;
    skip_zeros();
    if (stream_.avail_in == 0) return false;
    // A gzip file may continue with another member; a compressor produces no other continuation.
    const bool has_next = compression_ == Compression::kGzip && stream_.next_in[0] == 0x1f;
    if (!has_next) fail("it is followed by bytes that do not belong to it");
    inflateReset(&stream_);
    is_between_members_ = false;
    return true;
  }
  void skip_zeros() {
    do {
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
    } while (stream_.avail_in == 0 && refill());
  }
  bool refill() {
    const std::size_t got = file_->read(compressed_);
    stream_.next_in = reinterpret_cast<Bytef*>(compressed_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  std::size_t inflate_into(std::span<std::byte> buffer) {
    if (broken_ != Z_OK) fail_broken();
    if (stream_.avail_in == 0 && !refill()) fail("it is cut short");
    const std::size_t room = std::min<std::size_t>(buffer.size(), std::numeric_limits<uInt>::max());
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const std::size_t made = room - stream_.avail_out;
    produced_ += made;
    if (result == Z_STREAM_END) is_between_members_ = true;
    const bool works = result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
    if (!works) broken_ = result;
    if (works || made > 0) return made;
    fail_broken();
  }

  [[noreturn]] void fail_broken() const {
    if (broken_ == Z_MEM_ERROR) fail_memory();
    fail(stream_.msg != nullptr ? stream_.msg : "it needs a dictionary");
  }
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorCode::kDataLoss, name_, ": broken ", compression_, " file: ", why, ", after ",
                produced_, " bytes of content; fetch it again");
  }
  [[noreturn]] void fail_memory() const {
    throw Error(ErrorCode::kResourceExhausted, name_, ": no memory to decompress it");
  }

  std::unique_ptr<ReadableFile> file_;
  std::string name_;
  Compression compression_;
  z_stream stream_{};
  std::array<std::byte, kPiece> compressed_;
  std::uint64_t produced_ = 0;
  bool is_between_members_ = false;
  int broken_ = Z_OK;  // zlib's error, reported once the content before it is read
};

Compression found_in(ReadableFile& file) {
  constexpr std::array kMagic = {std::byte{0x1f}, std::byte{0x8b}, std::byte{0x08}};
  std::array<std::byte, 3> begin{};
  file.read(begin);
  file.seek(0);
  return begin == kMagic ? Compression::kGzip : Compression::kNone;
}

}  // namespace

std::unique_ptr<WritableFile> compressed(std::unique_ptr<WritableFile> file,
                                         Compression compression, CompressorOptions options) {
  check_argument(compression != Compression::kAuto,
                 "compressed: say which compression to write, kGzip or kZlib");
  check_argument(options.level >= 0 && options.level <= 9, "compressed: level is ", options.level,
                 "; it must be 0 to 9");
  if (compression == Compression::kNone) return file;
  return std::make_unique<Compressor>(std::move(file), compression, options);
}

std::string_view to_string(Compression compression) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "gzip", "zlib", "auto"};
  return kNames.at(static_cast<std::size_t>(compression));
}

std::unique_ptr<ReadableFile> decompressed(std::unique_ptr<ReadableFile> file, std::string name,
                                           Compression compression) {
  if (compression == Compression::kAuto) compression = found_in(*file);
  if (compression == Compression::kNone) return file;
  return std::make_unique<Decompressor>(std::move(file), std::move(name), compression);
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

}  // namespace brigade::io
