#include "brigade/rpc/acceptor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

base::FileDescriptor connect_to(int port) {
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check_state(
      ::connect(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
      "The test cannot connect.");
  return socket;
}

base::FileDescriptor connect_and_say(int port, std::string_view words) {
  base::FileDescriptor socket = connect_to(port);
  (void)::send(socket.number(), words.data(), words.size(), MSG_NOSIGNAL);
  return socket;
}

/// Whether the other side closes it within ten seconds.
bool is_closed(const base::FileDescriptor& socket) {
  char byte = 0;
  pollfd polled = {socket.number(), POLLIN, 0};
  return ::poll(&polled, 1, 10'000) == 1 && ::recv(socket.number(), &byte, 1, 0) <= 0;
}

/// An acceptor, and the connections that it passed on.
class Entrance {
 public:
  explicit Entrance(AcceptorOptions options = {}) {
    Listening listening = listen_on("127.0.0.1:0");
    port_ = listening.port;
    options.address = "here";
    acceptor_.emplace(options, std::move(listening.socket), [this](base::FileDescriptor socket) {
      const std::lock_guard lock(mutex_);
      handed_.push_back(std::move(socket));
    });
  }
  int port() const { return port_; }
  std::size_t num_handed() const {
    const std::lock_guard lock(mutex_);
    return handed_.size();
  }
  bool hands_on(std::size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (num_handed() < count) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

 private:
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<base::FileDescriptor> handed_;
  std::optional<Acceptor> acceptor_;  // ends first
};

TEST(Acceptor, PassesOnConnectionsThatBeginAsAMembersDoes) {
  const Entrance plain, secret({.opening = Opening::kTls});
  const base::FileDescriptor member = connect_and_say(plain.port(), kPreface);
  const base::FileDescriptor slow = connect_and_say(plain.port(), kPreface.substr(0, 1));
  const base::FileDescriptor with_key = connect_and_say(secret.port(), "\x16\x03\x01");
  EXPECT_TRUE(plain.hands_on(2));
  EXPECT_TRUE(secret.hands_on(1));
}

TEST(Acceptor, LeavesTheReceivedBytesInTheSocket) {
  Listening listening = listen_on("127.0.0.1:0");
  std::promise<std::string> heard;
  const Acceptor acceptor({}, std::move(listening.socket), [&](base::FileDescriptor socket) {
    std::string text(100, '\0');
    text.resize(static_cast<std::size_t>(::recv(socket.number(), text.data(), 100, 0)));
    heard.set_value(text);
  });
  const base::FileDescriptor member = connect_and_say(listening.port, kPreface);
  auto future = heard.get_future();
  ASSERT_EQ(future.wait_for(seconds(10)), std::future_status::ready);
  EXPECT_EQ(future.get(), kPreface);
}

TEST(Acceptor, ClosesWhatBeginsOtherwise) {
  const Entrance plain, secret({.opening = Opening::kTls});
  for (const std::string_view words : {"GET / HTTP/1.1\r\n\r\n", "PUT", "\xff\xff"})
    EXPECT_TRUE(is_closed(connect_and_say(plain.port(), words))) << words;
  for (const std::string_view words :
       {kPreface, std::string_view("\x16\x02"), std::string_view("x")})
    EXPECT_TRUE(is_closed(connect_and_say(secret.port(), words))) << words;
  EXPECT_EQ(plain.num_handed() + secret.num_handed(), 0u);
}

TEST(Acceptor, AnswersTlsWithAnAlertWhereThereIsNone) {
  const Entrance plain;
  const base::FileDescriptor member = connect_and_say(plain.port(), "\x16\x03\x01");
  char words[8] = {};
  EXPECT_EQ(::recv(member.number(), words, sizeof words, MSG_WAITALL), 7);
  EXPECT_EQ(words[0], 0x15);
}

TEST(Acceptor, ClosesSilentConnections) {
  const Entrance entrance({.patience = milliseconds(50)});
  EXPECT_TRUE(is_closed(connect_to(entrance.port())));
}

TEST(Acceptor, ClosesTheLongestSilentConnectionWhereManyWait) {
  const Entrance entrance({.most_waiting = 3});
  const base::FileDescriptor first = connect_to(entrance.port());
  const std::vector<base::FileDescriptor> others = [&] {
    std::vector<base::FileDescriptor> made;
    for (int i = 0; i < 3; ++i) made.push_back(connect_to(entrance.port()));
    return made;
  }();
  EXPECT_TRUE(is_closed(first));
  const base::FileDescriptor member = connect_and_say(entrance.port(), kPreface);
  EXPECT_TRUE(entrance.hands_on(1));
}

TEST(Acceptor, LimitsTheRateOfConnections) {
  const Entrance entrance({.burst = 2, .per_second = 10});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<base::FileDescriptor> members;
  for (int i = 0; i < 6; ++i) members.push_back(connect_and_say(entrance.port(), kPreface));
  EXPECT_TRUE(entrance.hands_on(6));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(390));
}

TEST(Acceptor, NamesAStormInTheLog) {
  std::mutex mutex;
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view text) {
    const std::lock_guard lock(mutex);
    log += text;
  });
  const auto is_named = [&] {
    const std::lock_guard lock(mutex);
    return log.find("A storm of connections at here") != std::string::npos;
  };
  {
    const Entrance entrance;
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (!is_named() && std::chrono::steady_clock::now() < deadline)
      (void)connect_and_say(entrance.port(), "garbage");
  }
  base::set_log_sink({});
  EXPECT_TRUE(is_named()) << log;
}

TEST(Acceptor, EndsImmediatelyWithOpenConnections) {
  std::optional<Entrance> entrance(std::in_place);
  const base::FileDescriptor silent = connect_to(entrance->port());
  const auto begin = std::chrono::steady_clock::now();
  entrance.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  EXPECT_TRUE(is_closed(silent));
}

TEST(Acceptor, ListensOnNoPortThatAnotherHas) {
  const Listening first = listen_on("127.0.0.1:0");
  try {
    listen_on("127.0.0.1:" + std::to_string(first.port));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("has the port"));
  }
}

}  // namespace
}  // namespace brigade::rpc
