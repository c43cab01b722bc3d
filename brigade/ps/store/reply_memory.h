#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace brigade::ps {

/// The tensors of a reply, as far as the length of its message follows from them.
struct ReplyExtent {
  std::size_t tensors = 0;
  std::size_t dimensions = 0;  ///< of all together
  std::uint64_t bytes = 0;     ///< likewise
};

/// Memory of a caller where the message of its reply will be: a text, and the tensors one after
/// another. Values that are written directly to it need not be copied again. The caller
/// may change it at any time, so it is never read.
///
/// Thread-safety: one thread.
class ReplyMemory {
 public:
  /// Without memory: tensors allocate theirs.
  ReplyMemory() = default;
  ReplyMemory(std::span<char> memory, std::shared_ptr<const void> owner)
      : memory_(memory), owner_(std::move(owner)) {}

  /// A reply with such tensors begins. If there is no room for it, they allocate theirs.
  void begin(const ReplyExtent& extent);
  /// An uninitialized tensor, contiguous: the next one of the reply.
  at::Tensor next(at::IntArrayRef sizes, at::ScalarType dtype);

  /// The length to which the text of the reply is padded with spaces. 0: it is not padded.
  std::size_t text_bytes() const { return text_bytes_; }

 private:
  std::span<char> memory_;
  std::shared_ptr<const void> owner_;
  std::size_t text_bytes_ = 0;
  std::size_t end_ = 0;  // of the tensors that were given out
};

}  // namespace brigade::ps
