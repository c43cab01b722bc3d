#include "brigade/rpc/message_frame.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::rpc {
namespace {

// `bytes bytes = 2` of proto::Frame: its number and wire type, then the length as a varint.
constexpr char kBytesTag = 2 << 3 | 2;
constexpr std::size_t kLongestPrefix = 6;
// Of a frame with a header: a token and a few numbers.
constexpr std::size_t kLongestHeader = 16 << 10;
// Shorter pieces are joined: a slice and a place in a system call cost more than a copy.
constexpr std::size_t kLongPiece = 16 << 10;

std::string prefix_of(std::size_t bytes) {
  std::string prefix(1, kBytesTag);
  for (; bytes >= 0x80; bytes >>= 7) prefix.push_back(static_cast<char>(bytes | 0x80));
  prefix.push_back(static_cast<char>(bytes));
  return prefix;
}

std::size_t size_of(std::span<const io::SharedBytes> pieces) {
  std::size_t size = 0;
  for (const io::SharedBytes& piece : pieces) size += piece.bytes.size();
  return size;
}

grpc::ByteBuffer buffer_of(const std::vector<grpc::Slice>& slices) {
  return {slices.data(), slices.size()};
}

grpc::Slice shared_slice(const io::SharedBytes& piece) {
  const auto release = [](void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); };
  auto owner = std::make_unique<std::shared_ptr<const void>>(piece.owner);
  // gRPC does not write to what it sends.
  return {const_cast<char*>(piece.bytes.data()), piece.bytes.size(), release, owner.release()};
}

[[noreturn]] void refuse_frame(std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, "A frame of a message is damaged: ", why);
}

/// The first bytes, at most `most`.
std::string front_of(const std::vector<grpc::Slice>& slices, std::size_t most) {
  std::string front;
  for (const grpc::Slice& slice : slices) {
    if (front.size() == most) break;
    front.append(reinterpret_cast<const char*>(slice.begin()),
                 std::min(slice.size(), most - front.size()));
  }
  return front;
}

struct Prefix {
  std::size_t size = 0;   // its own
  std::size_t bytes = 0;  // that follow it
};

/// Of a frame of bytes that begins with `front`.
Prefix prefix_in(std::string_view front) {
  Prefix prefix{.size = 1};
  for (int shift = 0;; shift += 7) {
    if (prefix.size == front.size()) refuse_frame("it has no length.");
    const auto byte = static_cast<unsigned char>(front[prefix.size++]);
    prefix.bytes |= static_cast<std::size_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return prefix;
  }
}

}  // namespace

grpc::ByteBuffer header_frame(const proto::FrameHeader& header) {
  proto::Frame frame;
  *frame.mutable_header() = header;
  const grpc::Slice slice(frame.SerializeAsString());
  return {&slice, 1};
}

grpc::ByteBuffer shared_frame(std::span<const io::SharedBytes> pieces) {
  std::vector<grpc::Slice> slices;
  std::string joined = prefix_of(size_of(pieces));
  for (const io::SharedBytes& piece : pieces) {
    if (piece.bytes.size() < kLongPiece) {
      joined += piece.bytes;
      continue;
    }
    if (!joined.empty()) slices.emplace_back(std::exchange(joined, {}));
    slices.push_back(shared_slice(piece));
  }
  if (!joined.empty()) slices.emplace_back(joined);
  return buffer_of(slices);
}

grpc::ByteBuffer copied_frame(std::span<const io::SharedBytes> pieces) {
  const std::string prefix = prefix_of(size_of(pieces));
  const std::size_t size = prefix.size() + size_of(pieces);
  auto* const memory = static_cast<char*>(std::malloc(size));
  if (memory == nullptr) throw std::bad_alloc();
  const grpc::Slice slice(memory, size, std::free);
  std::memcpy(memory, prefix.data(), prefix.size());
  char* end = memory + prefix.size();
  for (const io::SharedBytes& piece : pieces) {
    std::memcpy(end, piece.bytes.data(), piece.bytes.size());
    end += piece.bytes.size();
  }
  return {&slice, 1};
}

ReceivedFrame::ReceivedFrame(const grpc::ByteBuffer& frame) {
  if (!frame.Valid() || !frame.Dump(&slices_).ok()) refuse_frame("it cannot be read.");
  const std::size_t length = frame.Length();
  const std::string front = front_of(slices_, kLongestPrefix);
  if (!front.empty() && front.front() == kBytesTag) {
    const Prefix prefix = prefix_in(front);
    if (prefix.size + prefix.bytes != length) refuse_frame("its length is another.");
    begin_ = prefix.size;
    size_ = prefix.bytes;
    return;
  }
  proto::Frame parsed;
  if (length > kLongestHeader || !parsed.ParseFromString(front_of(slices_, length)))
    refuse_frame("it is neither a header nor bytes.");
  if (!parsed.has_header()) refuse_frame("it is empty.");
  is_header_ = true;
  header_ = std::move(*parsed.mutable_header());
}

void ReceivedFrame::copy_to(std::span<char> destination) const {
  check_argument(!is_header_ && destination.size() == size_,
                 "The bytes of a frame are copied into as much memory.");
  std::size_t skipped = begin_, done = 0;
  for (const grpc::Slice& slice : slices_) {
    const std::size_t skip = std::min(skipped, slice.size());
    skipped -= skip;
    const std::size_t count = slice.size() - skip;
    if (count > 0) std::memcpy(destination.data() + done, slice.begin() + skip, count);
    done += count;
  }
}

}  // namespace brigade::rpc
