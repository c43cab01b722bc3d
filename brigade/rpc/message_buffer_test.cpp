#include "brigade/rpc/message_buffer.h"

#include <gtest/gtest.h>

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

TEST(MessageBuffer, PutsTheFramesOfAMessageTogether) {
  for (const std::size_t size :
       {std::size_t{1}, kFrameBytes - 1, kFrameBytes, kFrameBytes + 1, 3 * kFrameBytes + 17}) {
    std::string message(size, 'a');
    message.back() = 'z';
    MessageBuffer buffer(size, size);
    for (std::size_t sent = 0; sent < size;) {
      EXPECT_FALSE(buffer.is_complete());
      const auto piece = frame_at(message, sent);
      buffer.append(piece);
      sent += piece.size();
    }
    ASSERT_TRUE(buffer.is_complete());
    EXPECT_EQ(buffer.take(), message);
  }
}

TEST(MessageBuffer, RefusesSizesBeforeItTakesMemory) {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1001}, std::numeric_limits<std::uint64_t>::max()}) {
    expect_invalid([&] { MessageBuffer(size, 1000); });
  }
  // A test that took what is announced here would not end.
  MessageBuffer huge(std::uint64_t{1} << 60, std::size_t{1} << 60);
  huge.append(std::string(kFrameBytes, 'a'));
  EXPECT_FALSE(huge.is_complete());
}

TEST(MessageBuffer, RefusesPiecesOfAnotherSize) {
  MessageBuffer buffer(kFrameBytes + 5, 2 * kFrameBytes);
  expect_invalid([&] { buffer.append(""); });
  expect_invalid([&] { buffer.append("ab"); });
  expect_invalid([&] { buffer.append(std::string(kFrameBytes + 5, 'a')); });
  buffer.append(std::string(kFrameBytes, 'a'));
  expect_invalid([&] { buffer.append("abcdef"); });
  expect_invalid([&] { buffer.append("abcd"); });
  buffer.append("abcde");
  expect_invalid([&] { buffer.append(""); });
  EXPECT_TRUE(buffer.is_complete());
}

}  // namespace
}  // namespace brigade::rpc
