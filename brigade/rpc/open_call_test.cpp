// Large calls whose message is written while it comes into being.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/testing/echo_service.h"
#include "brigade/rpc/testing/thread_cluster.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EchoService;
using testing::error_of_call;
using testing::large;
using testing::open_segments;
using testing::pattern;
using testing::within;
using enum testing::Method;

std::unique_ptr<OpenCall> begin_echo(MessageClient& client, std::size_t bytes,
                                     MessageClient::Time deadline = within(seconds(60))) {
  return client.begin_large_call(kEcho, "member", bytes, deadline);
}

/// Writes `message` in pieces of `piece` bytes; the first is one byte.
void write_in_pieces(OpenCall& call, const std::string& message, std::size_t piece) {
  call.write(std::string_view(message).substr(0, 1));
  for (std::size_t i = 1; i < message.size(); i += piece)
    call.write(std::string_view(message).substr(i, piece));
}

TEST(OpenCall, MessagesOfEverySizeAndPieceArrive) {
  for (const bool shared_memory : {true, false}) {
    EchoService service;
    const auto listener = listen_for_messages(service, {});
    const auto client =
        make_message_client(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    for (const std::size_t size :
         {std::size_t{1}, kFrameBytes - 1, kFrameBytes, kFrameBytes + 1, std::size_t{5'000'000}}) {
      for (const std::size_t piece : {std::size_t{100'003}, kFrameBytes, 3 * kFrameBytes}) {
        const std::string message = pattern(size);
        const auto call = begin_echo(*client, size);
        write_in_pieces(*call, message, piece);
        EXPECT_TRUE(call->finish().bytes == message) << size << " in pieces of " << piece;
      }
    }
    EXPECT_EQ(open_segments() > 0, shared_memory);
    EXPECT_EQ(service.calls, 15);
  }
}

TEST(OpenCall, ACallThatIsGivenUpIsNeverMadeAndLeavesNothing) {
  for (const bool shared_memory : {true, false}) {
    EchoService service;
    const auto listener = listen_for_messages(service, {});
    const auto client =
        make_message_client(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    const std::string message = pattern(3 << 20);
    for (int i = 0; i < 20; ++i) {
      const auto call = begin_echo(*client, message.size());
      // Nothing of it, a part, all but the end, or all.
      write_in_pieces(*call, message.substr(0, message.size() * (i % 4) / 3), 200'000);
    }
    EXPECT_TRUE(large(*client, message) == message);
    EXPECT_EQ(service.calls, 1) << "those that were given up";
    EXPECT_TRUE(testing::eventually([&] {
      const MessageLoad load = listener->load();
      return load.buffered_bytes == 0 && load.calls == 0;
    }));
  }
}

TEST(OpenCall, OtherCallsAreMadeMeanwhile) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client = make_message_client(listener->address(), std::nullopt);
  const std::string first = pattern(2 << 20), second(2 << 20, 'b');
  const auto call = begin_echo(*client, first.size());
  write_in_pieces(*call, first, 300'000);
  EXPECT_TRUE(large(*client, second) == second);
  EXPECT_EQ(client->call(kEcho, "", "small", within(seconds(20))), "small");
  EXPECT_TRUE(call->finish().bytes == first);
}

TEST(OpenCall, OpenCallsLeaveRoomForOthers) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.max_buffered_bytes = 12 << 20});
  const auto client =
      make_message_client(listener->address(), std::nullopt, {.shared_memory = false});
  const std::string message = pattern(5 << 20);
  const auto await_bytes = [&](std::size_t bytes) {
    return testing::eventually([&] { return listener->load().buffered_bytes == bytes; });
  };
  const auto first = begin_echo(*client, message.size());
  first->write(message.substr(0, kFrameBytes));
  ASSERT_TRUE(await_bytes(message.size()));
  const auto second = begin_echo(*client, message.size());
  write_in_pieces(*second, message, 300'000);
  try {
    second->finish();
    ADD_FAILURE() << "open calls have more than half of the room";
  } catch (const MessageError& error) {
    EXPECT_EQ(error.kind(), kBusyKind);
  }
  EXPECT_TRUE(large(*client, message) == message);
  first->write(message.substr(kFrameBytes));
  EXPECT_TRUE(first->finish().bytes == message);
  ASSERT_TRUE(await_bytes(0));
  const auto third = begin_echo(*client, message.size());
  write_in_pieces(*third, message, 300'000);
  EXPECT_TRUE(third->finish().bytes == message) << "the room is given back";
}

TEST(OpenCall, AListenerThatTakesNoSharedMemoryGetsTheNextInFrames) {
  EchoService service;
  const auto listener = listen_for_messages(service, {.shared_memory = false});
  const auto client = make_message_client(listener->address(), std::nullopt);
  const std::string message = pattern(2 << 20);
  const auto attempt = [&] {
    const auto call = begin_echo(*client, message.size());
    write_in_pieces(*call, message, 300'000);
    return std::string(call->finish().bytes);
  };
  EXPECT_EQ(error_of_call(attempt).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(service.calls, 0);
  EXPECT_TRUE(attempt() == message);
}

TEST(OpenCall, ItsErrorsAreThoseOfALargeCall) {
  EchoService service;
  auto listener = listen_for_messages(service, {.silence = seconds(1)});
  const auto client =
      make_message_client(listener->address(), std::nullopt, {.shared_memory = false});
  const std::string message = pattern(2 << 20);
  const auto stranger =
      client->begin_large_call(kEcho, "stranger", message.size(), within(seconds(60)));
  write_in_pieces(*stranger, message, 300'000);
  try {
    stranger->finish();
    ADD_FAILURE() << "it succeeded";
  } catch (const MessageError& error) {
    EXPECT_EQ(error.kind(), "not-member");
  }

  const auto silent = begin_echo(*client, message.size());
  silent->write(message.substr(0, kFrameBytes));
  ASSERT_TRUE(testing::eventually([&] { return listener->load().calls == 1; }));
  ASSERT_TRUE(testing::eventually([&] { return listener->load().calls == 0; }));
  silent->write(message.substr(kFrameBytes));  // it has failed, and takes them
  EXPECT_EQ(error_of_call([&] { silent->finish(); }).code(), ErrorCode::kDeadlineExceeded);

  const auto deadline = within(milliseconds(500));
  const auto late = begin_echo(*client, message.size(), deadline);
  while (std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  late->write(message);
  EXPECT_EQ(error_of_call([&] { late->finish(); }).code(), ErrorCode::kDeadlineExceeded);

  const auto lost = begin_echo(*client, message.size());
  listener.reset();
  lost->write(message);
  EXPECT_EQ(error_of_call([&] { lost->finish(); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(service.calls, 0);
}

TEST(OpenCall, AClosedClientEndsIt) {
  EchoService service;
  const auto listener = listen_for_messages(service, {});
  const auto client =
      make_message_client(listener->address(), std::nullopt, {.shared_memory = false});
  const auto call = begin_echo(*client, kFrameBytes);
  client->close();
  call->write(std::string(kFrameBytes, 'a'));
  EXPECT_EQ(error_of_call([&] { call->finish(); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error_of_call([&] { begin_echo(*client, 3); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(service.calls, 0);
}

TEST(OpenCall, AMessageHasTheBytesThatWereAnnounced) {
  for (const bool shared_memory : {true, false}) {
    EchoService service;
    const auto listener = listen_for_messages(service, {});
    const auto client =
        make_message_client(listener->address(), std::nullopt, {.shared_memory = shared_memory});
    const auto call = begin_echo(*client, 300'000);
    call->write(std::string(200'000, 'a'));
    EXPECT_EQ(error_of_call([&] { call->finish(); }).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(error_of_call([&] { call->write(std::string(100'001, 'b')); }).code(),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(error_of_call([&] { begin_echo(*client, 0); }).code(), ErrorCode::kInvalidArgument);
    call->write(std::string(100'000, 'b'));
    EXPECT_EQ(call->finish().bytes, std::string(200'000, 'a') + std::string(100'000, 'b'));
  }
}

}  // namespace
}  // namespace brigade::rpc
