#include "brigade/io/gzip.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/compression.h"

namespace brigade::io {
namespace {

using base::str_cat;

class BytesInMemory final : public ReadableFile {
 public:
  explicit BytesInMemory(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(std::span<std::byte> buffer) override {
    const std::string_view piece = bytes_.substr(place_, buffer.size());
    if (!piece.empty()) std::memcpy(buffer.data(), piece.data(), piece.size());
    place_ += piece.size();
    return piece.size();
  }
  void seek(std::uint64_t offset) override {
    place_ = std::min<std::uint64_t>(offset, bytes_.size());
  }

 private:
  std::string_view bytes_;
  std::size_t place_ = 0;
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
  const auto file = decompressed(std::make_unique<BytesInMemory>(compressed), std::string(name),
                                 Compression::kGzip);
  constexpr std::size_t kPiece = 1 << 16;
  std::string content;
  while (true) {
    const std::size_t filled = content.size();
    // One byte beyond the limit distinguishes "full" from "too much".
    content.resize(filled + std::min(kPiece - 1, max_bytes - filled) + 1);
    const std::span room = std::span(content).subspan(filled);
    const std::size_t got = file->read(std::as_writable_bytes(room));
    content.resize(filled + got);
    if (content.size() > max_bytes) {
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat(name, ": more than ", base::human_bytes(max_bytes),
                          " once decompressed, which is more than such a file may hold"));
    }
    if (got == 0) return content;
  }
}

}  // namespace brigade::io
