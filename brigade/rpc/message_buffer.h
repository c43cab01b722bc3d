#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace brigade::rpc {

/// Messages travel in pieces of this size; the last one is the rest.
inline constexpr std::size_t kFrameBytes = std::size_t{1} << 20;

/// The piece of `message` that begins at `offset`.
std::string_view frame_at(std::string_view message, std::size_t offset);

/// Collects a message whose size was announced. Takes memory as bytes arrive, at most twice what
/// has arrived, whatever was announced.
///
/// Thread-safety: one thread at a time.
class MessageBuffer {
 public:
  /// Throws kInvalidArgument unless `announced` is from 1 to `most`.
  MessageBuffer(std::uint64_t announced, std::size_t most);

  std::size_t announced() const { return announced_; }
  /// Throws kInvalidArgument for a piece that has another size than the next one must have.
  void append(std::string_view piece);
  bool is_complete() const { return bytes_.size() == announced_; }
  /// The message, which is complete. Leaves nothing here.
  std::string take();

 private:
  std::size_t announced_;
  std::string bytes_;
};

}  // namespace brigade::rpc
