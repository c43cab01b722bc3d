#include "brigade/rpc/message_frame.h"

#include <grpc/grpc.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/rpc/message_buffer.h"

namespace brigade::rpc {
namespace {

class MessageFrame : public ::testing::Test {
 protected:
  void SetUp() override { grpc_init(); }
  void TearDown() override { grpc_shutdown(); }
};

std::string text_of(const grpc::ByteBuffer& frame) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(frame.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

/// In slices of `size` bytes, as a network may cut it.
grpc::ByteBuffer frame_of(const std::string& text, std::size_t size) {
  std::vector<grpc::Slice> slices;
  for (std::size_t i = 0; i < text.size(); i += size) slices.emplace_back(text.substr(i, size));
  return {slices.data(), slices.size()};
}

std::string bytes_of(const ReceivedFrame& frame) {
  std::string bytes(frame.size(), '?');
  frame.copy_to(bytes);
  return bytes;
}

std::string protobuf_of(const std::string& bytes) {
  proto::Frame frame;
  frame.set_bytes(bytes);
  return frame.SerializeAsString();
}

TEST_F(MessageFrame, HasTheFormOfProtobufsMessage) {
  for (const std::size_t size : {1u, 127u, 128u, 16'383u, 16'384u, 100'000u, 1u << 20}) {
    std::string bytes(size, 'x');
    bytes.back() = 'y';
    io::BytePieces message(bytes.substr(0, size / 3));
    message.append(bytes.substr(size / 3));
    const std::string expected = protobuf_of(bytes);
    EXPECT_TRUE(text_of(copied_frame(message.pieces())) == expected) << size;
    EXPECT_TRUE(text_of(shared_frame(message.pieces())) == expected) << size;
  }
  proto::FrameHeader header;
  header.set_token("token");
  header.set_bytes(77);
  proto::Frame frame;
  ASSERT_TRUE(frame.ParseFromString(text_of(header_frame(header))));
  EXPECT_EQ(frame.header().token(), "token");
}

TEST_F(MessageFrame, IsReadHoweverItIsCut) {
  const std::string bytes(1000, 'b');
  proto::Frame with_header;
  with_header.mutable_header()->set_bytes(5);
  for (const std::size_t size : {1u, 2u, 3u, 7u, 5000u}) {
    const ReceivedFrame frame(frame_of(protobuf_of(bytes), size));
    EXPECT_FALSE(frame.is_header());
    EXPECT_EQ(bytes_of(frame), bytes);
    const ReceivedFrame header(frame_of(with_header.SerializeAsString(), size));
    EXPECT_TRUE(header.is_header());
    EXPECT_EQ(header.header().bytes(), 5u);
    EXPECT_EQ(header.size(), 0u);
  }
}

TEST_F(MessageFrame, AnythingElseIsRefused) {
  const std::string whole = protobuf_of(std::string(300, 'c'));
  std::vector<std::string> wrong = {"",
                                    "\x12",
                                    "\x12\xff",
                                    std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                                    "text",
                                    whole + "x",
                                    whole + whole,
                                    whole.substr(0, 299),
                                    std::string(20'000, '\x0a')};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    try {
      ReceivedFrame(frame_of(wrong[i], 1000));
      ADD_FAILURE() << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << i;
    }
  }
}

TEST_F(MessageFrame, SharesLongPiecesAndCopiesOnRequest) {
  const auto owner = std::make_shared<std::string>(100'000, 'd');
  const std::vector<io::SharedBytes> pieces = {{.bytes = *owner, .owner = owner}};
  {
    const grpc::ByteBuffer shared = shared_frame(pieces);
    const grpc::ByteBuffer copied = copied_frame(pieces);
    EXPECT_EQ(owner.use_count(), 3) << "owner, pieces and the shared frame";
    owner->front() = 'e';
    EXPECT_EQ(bytes_of(ReceivedFrame(shared)).front(), 'e');
    EXPECT_EQ(bytes_of(ReceivedFrame(copied)).front(), 'd');
  }
  EXPECT_EQ(owner.use_count(), 2) << "gRPC has given it back";
}

}  // namespace
}  // namespace brigade::rpc
