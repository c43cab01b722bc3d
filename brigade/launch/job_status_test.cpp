#include "brigade/launch/status_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brigade/base/error.h"
#include "brigade/launch/descriptors.h"

namespace brigade::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

JobStatus running() {
  return {
      .generation = 2, .restarts = 1, .membership_changes = 3, .seconds = 1.5, .up = {true, false}};
}

class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw Error(ErrorCode::kUnavailable, "not connected");
    set_non_blocking(socket_);
  }
  void say(const std::string& text) {
    ASSERT_EQ(::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// What the server answers, while it serves.
  std::string hear(StatusServer& server) {
    std::string text;
    for (int round = 0; round < 1000; ++round) {
      std::vector<pollfd> waiting;
      server.add_to(waiting);
      ::poll(waiting.data(), waiting.size(), 1);
      server.serve(running);
      char piece[4096];
      const ssize_t count = ::recv(socket_.number(), piece, sizeof(piece), 0);
      if (count == 0) break;
      if (count > 0) text.append(piece, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  base::FileDescriptor socket_;
};

TEST(StatusServer, AnswersHealthAndMetrics) {
  StatusServer server(0);
  Client health(server.port());
  health.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(health.hear(server), StartsWith("HTTP/1.1 200 OK\r\n"));
  Client metrics(server.port());
  metrics.say("GET /metrics HTTP/1.1\r\n");
  metrics.say("\r\n");
  const std::string text = metrics.hear(server);
  EXPECT_THAT(text, HasSubstr("\nbrigade_job_generation 2\n"));
  EXPECT_THAT(text, HasSubstr("\nbrigade_job_restarts_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nbrigade_rank_up{rank=\"1\"} 0\n"));
}

TEST(StatusServer, IsNotDisturbedBySilentAndRudeClients) {
  StatusServer server(0);
  Client silent(server.port());
  Client garbage(server.port());
  garbage.say(std::string("\x16\x03\x01\0garbage\n\n", 13));
  EXPECT_THAT(garbage.hear(server), StartsWith("HTTP/1.1 400 "));
  Client endless(server.port());
  endless.say(std::string(9000, 'x'));
  EXPECT_THAT(endless.hear(server), StartsWith("HTTP/1.1 431 "));
  { Client gone(server.port()); }
  Client health(server.port());
  health.say("GET /healthz HTTP/1.0\n\n");
  EXPECT_THAT(health.hear(server), StartsWith("HTTP/1.1 200 "));
}

TEST(StatusServer, CutsSilentClientsOffInTime) {
  StatusServer server(0);
  Client silent(server.port());
  EXPECT_EQ(server.next_deadline(), StatusServer::Clock::time_point::max());
  server.serve(running);
  EXPECT_LE(server.next_deadline(), StatusServer::Clock::now() + std::chrono::seconds(5));
}

TEST(StatusServer, NamesAPortThatIsTaken) {
  const StatusServer first(0);
  try {
    const StatusServer second(first.port());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(first.port())));
  }
}

TEST(HttpAnswer, KnowsItsPathsAndMethods) {
  EXPECT_THAT(http_answer("GET / HTTP/1.1\r\n\r\n", running), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(http_answer("POST /metrics HTTP/1.1\r\n\r\n", running), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(http_answer("GET /healthz\r\n\r\n", running), StartsWith("HTTP/1.1 400 "));
  const auto stopping = [] { return JobStatus{.is_stopping = true}; };
  EXPECT_THAT(http_answer("GET /healthz HTTP/1.1\r\n\r\n", stopping), StartsWith("HTTP/1.1 503 "));
}

}  // namespace
}  // namespace brigade::launch
