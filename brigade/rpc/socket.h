#pragma once

#include <utility>

namespace brigade::rpc {

/// Owns the descriptor of a socket.
///
/// Thread-safety: a value that moves.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  /// -1 for none.
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  /// Gives up ownership: the caller closes the descriptor.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

}  // namespace brigade::rpc
