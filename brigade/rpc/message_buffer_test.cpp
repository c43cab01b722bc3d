#include "brigade/rpc/message_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "brigade/base/error.h"

namespace brigade::rpc {
namespace {

void expect_invalid(const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

std::string joined_frame(const std::vector<io::SharedBytes>& pieces) {
  std::string bytes;
  for (const io::SharedBytes& piece : pieces) bytes += piece.bytes;
  return bytes;
}

void append(MessageBuffer& buffer, const std::string& piece) {
  std::ranges::copy(piece, buffer.next(piece.size()).begin());
}

TEST(MessageBuffer, PutsTheFramesOfAMessageTogether) {
  for (const std::size_t size :
       {std::size_t{1}, kFrameBytes - 1, kFrameBytes, kFrameBytes + 1, 3 * kFrameBytes + 17}) {
    std::string message(size, 'a');
    message.back() = 'z';
    MessageBuffer buffer(size, size);
    for (MessageFrames frames(message); !frames.is_done();) {
      EXPECT_FALSE(buffer.is_complete());
      append(buffer, joined_frame(frames.next()));
    }
    ASSERT_TRUE(buffer.is_complete());
    const io::SharedBytes taken = buffer.take();
    EXPECT_TRUE(taken.bytes == message);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken.bytes.data()) % 64, 0u) << "for tensors";
  }
}

TEST(MessageBuffer, GrowsPastItsFirstMemory) {
  const std::size_t size = (std::size_t{64} << 20) + 3 * kFrameBytes + 5;
  MessageBuffer buffer(size, size);
  for (std::size_t sent = 0; sent < size;) {
    const std::span<char> room = buffer.next(std::min(kFrameBytes, size - sent));
    std::ranges::fill(room, static_cast<char>(sent >> 20));
    sent += room.size();
  }
  const io::SharedBytes taken = buffer.take();
  ASSERT_EQ(taken.bytes.size(), size);
  for (std::size_t i = 0; i < size; i += 100'003)
    ASSERT_EQ(taken.bytes[i], static_cast<char>(i >> 20)) << i;
}

TEST(MessageFrames, ShareTheMessageWhateverItsPiecesAre) {
  io::BytePieces message("head");
  const std::string large(2 * kFrameBytes + 9, 'b');
  message.append(large);
  message.append(std::string("tail"));
  const char* const begin = message.pieces()[1].bytes.data();
  MessageFrames frames(message);
  const auto first = frames.next();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].bytes, "head");
  EXPECT_EQ(first[1].bytes.data(), begin) << "it is no copy";
  EXPECT_EQ(first[0].bytes.size() + first[1].bytes.size(), kFrameBytes);
  EXPECT_EQ(joined_frame(frames.next()).size(), kFrameBytes);
  EXPECT_EQ(joined_frame(frames.next()), std::string(13, 'b') + "tail");
  EXPECT_TRUE(frames.is_done());
  EXPECT_TRUE(MessageFrames({}).is_done());
}

TEST(MessageBuffer, RefusesSizesBeforeItTakesMemory) {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1001}, std::numeric_limits<std::uint64_t>::max()}) {
    expect_invalid([&] { MessageBuffer(size, 1000); });
  }
  // A test that took what is announced here would not end.
  MessageBuffer huge(std::uint64_t{1} << 60, std::size_t{1} << 60);
  append(huge, std::string(kFrameBytes, 'a'));
  EXPECT_FALSE(huge.is_complete());
}

TEST(MessageBuffer, RefusesPiecesOfAnotherSize) {
  MessageBuffer buffer(kFrameBytes + 5, 2 * kFrameBytes);
  for (const std::size_t size : {std::size_t{0}, std::size_t{2}, kFrameBytes + 5})
    expect_invalid([&] { buffer.next(size); });
  append(buffer, std::string(kFrameBytes, 'a'));
  for (const std::size_t size : {6, 4}) expect_invalid([&] { buffer.next(size); });
  append(buffer, "abcde");
  expect_invalid([&] { buffer.next(0); });
  EXPECT_TRUE(buffer.is_complete());
}

}  // namespace
}  // namespace brigade::rpc
