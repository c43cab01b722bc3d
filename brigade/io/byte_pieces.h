#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brigade::io {

/// Bytes in memory, with what keeps them there. They must not change while anybody has them. Copies
/// share them.
struct SharedBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

SharedBytes shared_bytes(std::string bytes);

/// Bytes that are in several places of memory, one piece after another: long data is written to a
/// file or sent to another process without being copied into one place first. Copies share the
/// pieces.
///
/// Thread-safety: a value.
class BytePieces {
 public:
  BytePieces() = default;
  /// One piece, which it owns.
  BytePieces(std::string bytes);  // NOLINT(google-explicit-constructor): most are one text
  BytePieces(const char* text) : BytePieces(std::string(text)) {}  // NOLINT: as above

  void append(std::string bytes) { append(shared_bytes(std::move(bytes))); }
  void append(SharedBytes piece);

  std::size_t size() const { return size_; }
  /// None is empty.
  std::span<const SharedBytes> pieces() const { return pieces_; }

  /// Writes all bytes, one piece after another, to `destination`, which has room for `size()`. A
  /// piece that is in its place there already is left as it is; none is elsewhere in it.
  void copy_to(char* destination) const;
  std::string joined() const;
  /// Replaces the pieces by a copy of them: what they share may then change.
  void unshare();

 private:
  std::vector<SharedBytes> pieces_;
  std::size_t size_ = 0;
};

}  // namespace brigade::io
