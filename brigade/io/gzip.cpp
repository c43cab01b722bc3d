#include "brigade/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using base::str_cat;

/// Reads members from `rest_` into one string.
class Inflater {
 public:
  Inflater(std::string_view compressed, std::string_view name, std::size_t max_bytes)
      : rest_(compressed), name_(name), max_bytes_(max_bytes) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      throw Error(ErrorCode::kResourceExhausted, str_cat(name_, ": no memory to decompress it"));
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string run() {
    do {
      read_member();
      inflateReset(&stream_);
    } while (is_gzip(rest_));
    if (rest_.find_first_not_of('\0') != std::string_view::npos) {
      throw Error(ErrorCode::kDataLoss,
                  str_cat(name_, ": ", rest_.size(),
                          " bytes that are no gzip follow its end; fetch the file again"));
    }
    return std::move(content_);
  }

 private:
  void read_member() {
    while (true) {
      const int result = step();
      if (result == Z_STREAM_END) return;
      if (result == Z_MEM_ERROR) {
        throw Error(ErrorCode::kResourceExhausted, str_cat(name_, ": no memory to decompress it"));
      }
      if (result != Z_OK && result != Z_BUF_ERROR) {
        throw Error(ErrorCode::kDataLoss,
                    str_cat(name_, ": broken gzip (", stream_.msg != nullptr ? stream_.msg : "?",
                            "); fetch the file again"));
      }
    }
  }

  /// Decompresses a piece of the input into a piece of output.
  int step() {
    constexpr std::size_t kPiece = 1 << 16;
    // One byte beyond the limit tells "full" from "too much".
    const std::size_t filled = content_.size();
    const std::size_t room = std::min(kPiece - 1, max_bytes_ - filled) + 1;
    content_.resize(filled + room);
    const std::size_t offered =
        std::min<std::size_t>(rest_.size(), std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = reinterpret_cast<Bytef*>(content_.data() + filled);
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    rest_.remove_prefix(offered - stream_.avail_in);
    content_.resize(filled + room - stream_.avail_out);
    if (content_.size() > max_bytes_) {
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat(name_, ": more than ", base::human_bytes(max_bytes_),
                          " once decompressed, which is more than such a file may hold"));
    }
    const bool wants_more = result == Z_OK || result == Z_BUF_ERROR;
    if (wants_more && rest_.empty() && content_.size() < filled + room) {
      throw Error(ErrorCode::kDataLoss,
                  str_cat(name_, ": the gzip file is cut short after ", content_.size(),
                          " bytes of content; fetch it again"));
    }
    return result;
  }

  std::string_view rest_;
  std::string_view name_;
  std::size_t max_bytes_;
  z_stream stream_{};
  std::string content_;
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view compressed, std::string_view name, std::size_t max_bytes) {
  if (!is_gzip(compressed)) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat(name, compressed.empty() ? ": is empty" : ": does not begin as gzip does",
                        " (1f 8b expected); is it the right file?"));
  }
  return Inflater(compressed, name, max_bytes).run();
}

}  // namespace brigade::io
