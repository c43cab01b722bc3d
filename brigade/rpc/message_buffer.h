#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "brigade/io/byte_pieces.h"

namespace brigade::rpc {

/// Messages travel in pieces of this size; the last one is the rest.
inline constexpr std::size_t kFrameBytes = std::size_t{1} << 20;

/// Memory for a message: not initialized, and aligned as libtorch aligns tensors.
std::shared_ptr<char> message_memory(std::size_t bytes);

/// Cuts a message into its frames, which share its memory.
///
/// Thread-safety: one thread at a time.
class MessageFrames {
 public:
  explicit MessageFrames(io::BytePieces message) : message_(std::move(message)) {}

  bool is_done() const { return piece_ == message_.pieces().size(); }
  /// The next frame, in pieces.
  std::vector<io::SharedBytes> next();

 private:
  io::BytePieces message_;
  std::size_t piece_ = 0;   // of message_
  std::size_t offset_ = 0;  // within it
};

/// Collects a message whose size was announced. Takes memory as bytes arrive, at most twice what
/// has arrived, whatever was announced; beyond that at most 64 MiB of addresses.
///
/// Thread-safety: one thread at a time.
class MessageBuffer {
 public:
  /// Throws kInvalidArgument unless `announced` is from 1 to `most`.
  MessageBuffer(std::uint64_t announced, std::size_t most);

  std::size_t announced() const { return announced_; }
  /// Where the next piece goes. Throws kInvalidArgument for another size than it must have.
  std::span<char> next(std::size_t size);
  bool is_complete() const { return size_ == announced_; }
  /// The message, which is complete. Leaves nothing here.
  io::SharedBytes take();

 private:
  void grow(std::size_t size);

  std::size_t announced_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::shared_ptr<char> memory_;
};

}  // namespace brigade::rpc
