#include <zlib.h>

#include <limits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/compression.h"

namespace brigade::io {
namespace {

class Compressor final : public WritableFile {
 public:
  Compressor(std::unique_ptr<WritableFile> file, Compression compression,
             const CompressorOptions& options)
      : file_(std::move(file)), packed_(std::max<std::size_t>(options.buffer_bytes, 64)) {
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
        if (stream_.avail_out == 0) hand_on();
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
      hand_on();
      if (is_all) return;
    }
  }
  void hand_on() {
    file_->write(std::span(packed_).first(packed_.size() - stream_.avail_out));
    empty();
  }
  void empty() {
    stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_out = static_cast<uInt>(packed_.size());
  }

  std::unique_ptr<WritableFile> file_;
  z_stream stream_{};
  std::vector<std::byte> packed_;
};

}  // namespace

std::unique_ptr<WritableFile> compressed(std::unique_ptr<WritableFile> file,
                                         Compression compression, CompressorOptions options) {
  check_argument(compression != Compression::kAuto,
                 "compressed: say which compression to write, kGzip or kZlib");
  check_argument(options.level >= 0 && options.level <= 9,
                 base::str_cat("compressed: level is ", options.level, "; it must be 0 to 9"));
  if (compression == Compression::kNone) return file;
  return std::make_unique<Compressor>(std::move(file), compression, options);
}

}  // namespace brigade::io
