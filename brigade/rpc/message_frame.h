#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <span>
#include <vector>

#include "brigade/io/byte_pieces.h"
#include "brigade/rpc/proto/message_service.pb.h"

/// The frames of large calls as gRPC carries them. They have the form of `proto::Frame`, and are
/// written and read without protobuf, which would copy their bytes twice on each side.
namespace brigade::rpc {

grpc::ByteBuffer header_frame(const proto::FrameHeader& header);
/// gRPC shares the memory of long pieces until they are sent, which may be after their call has
/// ended: they must not change.
grpc::ByteBuffer shared_frame(std::span<const io::SharedBytes> pieces);
/// With a copy of the pieces.
grpc::ByteBuffer copied_frame(std::span<const io::SharedBytes> pieces);

/// A frame that was received: a header, or bytes.
///
/// Thread-safety: a value.
class ReceivedFrame {
 public:
  /// Throws kInvalidArgument for anything else.
  explicit ReceivedFrame(const grpc::ByteBuffer& frame);

  bool is_header() const { return is_header_; }
  const proto::FrameHeader& header() const { return header_; }
  /// The number of bytes; 0 of a header.
  std::size_t size() const { return size_; }
  void copy_to(std::span<char> destination) const;

 private:
  std::vector<grpc::Slice> slices_;
  std::size_t begin_ = 0;  // of the bytes, from the beginning of the first slice
  std::size_t size_ = 0;
  bool is_header_ = false;
  proto::FrameHeader header_;
};

}  // namespace brigade::rpc
