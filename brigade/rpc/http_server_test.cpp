#include "brigade/rpc/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <string>

#include "brigade/base/error.h"

namespace brigade::rpc {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

HttpAnswer one_page(const std::string& path) {
  if (path == "/page") return {.content_type = "text/plain; version=7", .body = "words\n"};
  return {.status = "404 Not Found", .body = "there is /page\n"};
}

class HttpVisitor {
 public:
  explicit HttpVisitor(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw Error(ErrorCode::kUnavailable, "not connected");
    ::fcntl(socket_.number(), F_SETFL, O_NONBLOCK);
  }
  void say(const std::string& text) {
    ASSERT_EQ(::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// What the server answers, while it serves.
  std::string hear(HttpServer& server) {
    std::string text;
    for (int round = 0; round < 1000; ++round) {
      std::vector<pollfd> waiting;
      server.add_to(waiting);
      ::poll(waiting.data(), waiting.size(), 1);
      server.serve(one_page);
      char piece[4096];
      const ssize_t count = ::recv(socket_.number(), piece, sizeof(piece), 0);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) break;
      if (count > 0) text.append(piece, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  base::FileDescriptor socket_;
};

TEST(HttpServer, AnswersWithItsPages) {
  HttpServer server(0);
  HttpVisitor visitor(server.port());
  visitor.say("GET /page HTTP/1.1\r\n");
  visitor.say("\r\n");
  const std::string text = visitor.hear(server);
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=7\r\n"));
  EXPECT_THAT(text, HasSubstr("\r\nContent-Length: 6\r\n"));
  EXPECT_THAT(text, EndsWith("\r\n\r\nwords\n"));
}

TEST(HttpServer, IsNotDisturbedBySilentAndRudeClients) {
  HttpServer server(0);
  HttpVisitor silent(server.port());
  HttpVisitor garbage(server.port());
  garbage.say(std::string("\x16\x03\x01\0garbage\n\n", 13));
  EXPECT_THAT(garbage.hear(server), StartsWith("HTTP/1.1 400 "));
  HttpVisitor endless(server.port());
  endless.say(std::string(9000, 'x'));
  EXPECT_THAT(endless.hear(server), StartsWith("HTTP/1.1 431 "));
  { HttpVisitor gone(server.port()); }
  HttpVisitor polite(server.port());
  polite.say("GET /page HTTP/1.0\n\n");
  EXPECT_THAT(polite.hear(server), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, HasRoomForANewConnectionHoweverManyAreOpen) {
  HttpServer server(0);
  std::list<HttpVisitor> silent;
  for (std::size_t i = 0; i < HttpServer::kMostConnections + 8; ++i) {
    silent.emplace_back(server.port());
    server.serve(one_page);
  }
  std::vector<pollfd> waiting;
  server.add_to(waiting);
  EXPECT_LE(waiting.size(), HttpServer::kMostConnections + 1);  // and the listening socket
  HttpVisitor visitor(server.port());
  visitor.say("GET /page HTTP/1.1\r\n\r\n");
  EXPECT_THAT(visitor.hear(server), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, CutsSilentClientsOffInTime) {
  HttpServer server(0);
  HttpVisitor silent(server.port());
  EXPECT_EQ(server.next_deadline(), HttpServer::Clock::time_point::max());
  server.serve(one_page);
  EXPECT_LE(server.next_deadline(), HttpServer::Clock::now() + HttpServer::kPatience);
}

TEST(HttpServer, NamesAPortThatIsTaken) {
  const HttpServer first(0);
  try {
    const HttpServer second(first.port());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(first.port())));
  }
}

TEST(HttpResponse, KnowsItsPathsAndMethods) {
  EXPECT_THAT(http_response("GET / HTTP/1.1\r\n\r\n", one_page), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(http_response("POST /page HTTP/1.1\r\n\r\n", one_page), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(http_response("GET /page\r\n\r\n", one_page), StartsWith("HTTP/1.1 400 "));
}

}  // namespace
}  // namespace brigade::rpc
