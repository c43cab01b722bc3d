#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace brigade::io {

/// SHA-256 of bytes that are added in pieces.
///
/// Thread-safety: one thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  /// Adds bytes after those added so far.
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);

  /// The digest of everything added so far, as 64 lower-case hexadecimal digits. More may be added
  /// afterwards.
  std::string hex_digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of `text` alone.
std::string sha256_hex(std::string_view text);

}  // namespace brigade::io
