#include "brigade/rpc/message_buffer.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {

std::string_view frame_at(std::string_view message, std::size_t offset) {
  return message.substr(offset, kFrameBytes);
}

MessageBuffer::MessageBuffer(std::uint64_t announced, std::size_t most)
    : announced_(static_cast<std::size_t>(announced)) {
  check_argument(announced >= 1 && announced <= most,
                 base::str_cat("A message has from 1 to ", most, " bytes (max_message_bytes), not ",
                               announced, "."));
}

void MessageBuffer::append(std::string_view piece) {
  const std::size_t expected = std::min(kFrameBytes, announced_ - bytes_.size());
  check_argument(!is_complete() && piece.size() == expected,
                 base::str_cat("After ", bytes_.size(), " of a message's ", announced_,
                               " bytes come ", expected, " in one piece, not ", piece.size(), "."));
  if (bytes_.capacity() < bytes_.size() + piece.size()) {
    bytes_.reserve(std::min(announced_, std::max(2 * bytes_.size(), bytes_.size() + piece.size())));
  }
  bytes_ += piece;
}

std::string MessageBuffer::take() {
  return std::exchange(bytes_, {});
}

}  // namespace brigade::rpc
