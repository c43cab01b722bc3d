#include "brigade/rpc/message_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "brigade/base/error.h"

namespace brigade::rpc {
namespace {

constexpr std::align_val_t kAlignment{64};
// What is not written takes addresses alone, and most messages need not be moved as they arrive.
constexpr std::size_t kFirstBytes = std::size_t{64} << 20;

}  // namespace

std::shared_ptr<char> message_memory(std::size_t bytes) {
  const auto free = [](char* memory) { ::operator delete(memory, kAlignment); };
  return {static_cast<char*>(::operator new(bytes, kAlignment)), free};
}

std::vector<io::SharedBytes> MessageFrames::next() {
  std::vector<io::SharedBytes> frame;
  for (std::size_t left = kFrameBytes; left > 0 && !is_done();) {
    const io::SharedBytes& piece = message_.pieces()[piece_];
    const std::string_view bytes = piece.bytes.substr(offset_, left);
    frame.push_back({.bytes = bytes, .owner = piece.owner});
    left -= bytes.size();
    offset_ += bytes.size();
    if (offset_ < piece.bytes.size()) continue;
    ++piece_;
    offset_ = 0;
  }
  return frame;
}

MessageBuffer::MessageBuffer(std::uint64_t announced, std::size_t most)
    : announced_(static_cast<std::size_t>(announced)) {
  check_argument(announced >= 1 && announced <= most, "A message has from 1 to ", most,
                 " bytes (max_message_bytes), not ", announced, ".");
}

std::span<char> MessageBuffer::next(std::size_t size) {
  const std::size_t expected = std::min(kFrameBytes, announced_ - size_);
  check_argument(!is_complete() && size == expected, "After ", size_, " of a message's ",
                 announced_, " bytes come ", expected, " in one piece, not ", size, ".");
  if (capacity_ < size_ + size) grow(std::min(announced_, std::max(kFirstBytes, 2 * size_)));
  const std::span<char> room(memory_.get() + size_, size);
  size_ += size;
  return room;
}

void MessageBuffer::grow(std::size_t size) {
  std::shared_ptr<char> larger = message_memory(size);
  if (size_ > 0) std::memcpy(larger.get(), memory_.get(), size_);
  memory_ = std::move(larger);
  capacity_ = size;
}

io::SharedBytes MessageBuffer::take() {
  const std::string_view bytes(memory_.get(), std::exchange(size_, 0));
  capacity_ = 0;
  return {.bytes = bytes, .owner = std::exchange(memory_, nullptr)};
}

}  // namespace brigade::rpc
