#include "brigade/rpc/http_client.h"

#include <gtest/gtest.h>

#include <thread>

#include "brigade/base/testing/error_code.h"
#include "brigade/rpc/http_server.h"

namespace brigade::rpc {
namespace {

using base::testing::code_of;

constexpr std::chrono::seconds kPatience{20};

TEST(HttpClient, GetsWhatAServerServes) {
  HttpServer server(0);
  std::jthread serving([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> waiting;
      server.add_to(waiting);
      ::poll(waiting.data(), waiting.size(), 10);
      server.serve([](const std::string& path) -> HttpAnswer {
        if (path != "/metrics") return {.status = "404 Not Found", .body = "no"};
        return {.body = std::string(100'000, 'x')};
      });
    }
  });
  const HttpReply found = http_get({.port = server.port(), .path = "/metrics"}, kPatience);
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(found.body, std::string(100'000, 'x'));
  EXPECT_EQ(http_get({.port = server.port(), .path = "/other"}, kPatience).status, 404);
}

TEST(HttpClient, ReportsAServerThatIsNotThereOrSilent) {
  int port = 0;
  {
    const HttpServer silent(0);
    port = silent.port();
    const auto ask = [&] { http_get({.port = port}, std::chrono::milliseconds(50)); };
    EXPECT_EQ(code_of(ask), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_EQ(code_of([&] { http_get({.port = port}, kPatience); }), ErrorCode::kUnavailable);
}

TEST(HttpClient, ReadsAddressesOfThisMachine) {
  EXPECT_EQ(parse_local_url("http://127.0.0.1:9400/metrics").path, "/metrics");
  EXPECT_EQ(parse_local_url("http://localhost:9400").port, 9400);
  EXPECT_EQ(parse_local_url("127.0.0.1:80").path, "/");
  for (const char* wrong : {"", "http://127.0.0.1", "http://example.com:80", "https://127.0.0.1:1",
                            "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:8x", ":80"})
    EXPECT_EQ(code_of([&] { parse_local_url(wrong); }), ErrorCode::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace brigade::rpc
