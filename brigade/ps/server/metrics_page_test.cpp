#include "brigade/ps/server/metrics_page.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <list>
#include <stdexcept>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/ps/server/server_metrics.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A connection of a browser, or of somebody who is none.
class PageVisitor {
 public:
  explicit PageVisitor(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval deadline = {.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    check_state(
        ::connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
        "The test cannot connect.");
  }
  /// Everything until the server closes the connection.
  std::string ask(const std::string& request) {
    ::send(socket_.number(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string answer;
    char piece[4096];
    for (ssize_t count = 0; (count = ::recv(socket_.number(), piece, sizeof piece, 0)) > 0;)
      answer.append(piece, static_cast<std::size_t>(count));
    return answer;
  }

 private:
  base::FileDescriptor socket_;
};

std::string get(const MetricsPage& page, const std::string& path = "/metrics") {
  return PageVisitor(page.port()).ask("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
}

TEST(MetricsPage, ServesTheCurrentText) {
  std::atomic<int> pushes{1};
  const MetricsPage page(0, [&] { return "pushes " + std::to_string(pushes.load()) + "\n"; });
  EXPECT_THAT(get(page), StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(get(page), HasSubstr("\r\n\r\npushes 1\n"));
  pushes = 2;
  EXPECT_THAT(get(page), HasSubstr("\r\n\r\npushes 2\n"));
  EXPECT_THAT(get(page, "/"), StartsWith("HTTP/1.1 404 "));
}

TEST(MetricsPage, IsServedWhileOthersAreSilentOrTalkGarbage) {
  const MetricsPage page(0, [] { return std::string("x 1\n"); });
  std::list<PageVisitor> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(page.port());
  EXPECT_THAT(PageVisitor(page.port()).ask("\x16\x03\x01garbage\n\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(PageVisitor(page.port()).ask(std::string(9000, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(get(page), HasSubstr("\r\n\r\nx 1\n"));
}

TEST(MetricsPage, SurvivesATextThatFails) {
  const MetricsPage page(0, []() -> std::string { throw std::runtime_error("no memory"); });
  EXPECT_THAT(get(page), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(get(page), StartsWith("HTTP/1.1 500 "));
}

TEST(MetricsPage, EndsWhileSomebodyIsConnected) {
  std::list<PageVisitor> silent;
  {
    const MetricsPage page(0, [] { return std::string(); });
    silent.emplace_back(page.port());
  }
  EXPECT_EQ(silent.front().ask(""), "");
}

TEST(MetricsPage, NamesAPortThatItCannotHave) {
  const auto text = [] { return std::string(); };
  const MetricsPage first(0, text);
  EXPECT_EQ(code_of([&] { const MetricsPage second(first.port(), text); }),
            ErrorCode::kUnavailable);
  for (const int port : {-1, 65536})
    EXPECT_EQ(code_of([&] { const MetricsPage page(port, text); }), ErrorCode::kInvalidArgument);
}

TEST(ServerMetrics, AreTextForPrometheus) {
  ServerLatencies latencies;
  latencies.pushes.add(std::chrono::milliseconds(2));
  const std::string text = to_metrics({.status = {.is_ready = true, .step = 12},
                                       .counters = {.pushes = 7, .stale = 2, .lost_leases = 1},
                                       .members = 3,
                                       .waiting_records = 4,
                                       .log_bytes = 5000,
                                       .pushes = latencies.pushes.counts()},
                                      {.received_bytes = 80,
                                       .sent_bytes = 90,
                                       .messages = {.buffered_bytes = 10, .calls = 6, .waits = 5}});
  for (const char* line :
       {"brigade_ps_pushes_total 7", "brigade_ps_stale_gradients_total 2", "brigade_ps_step 12",
        "brigade_ps_ready 1", "brigade_ps_lost_leases_total 1", "brigade_ps_members 3",
        "brigade_ps_log_waiting_records 4", "brigade_ps_log_bytes 5000",
        "brigade_ps_push_seconds_count 1", "brigade_ps_pull_seconds_count 0",
        "brigade_ps_received_bytes_total 80", "brigade_ps_sent_bytes_total 90",
        "brigade_ps_buffered_bytes 10", "brigade_ps_calls 6", "brigade_ps_waiting_calls 5"})
    EXPECT_THAT(text, HasSubstr("\n" + std::string(line) + "\n"));
}

}  // namespace
}  // namespace brigade::ps
