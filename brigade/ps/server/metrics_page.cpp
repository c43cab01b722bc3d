#include "brigade/ps/server/metrics_page.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/http_server.h"
#include "brigade/rpc/metrics_text.h"

namespace brigade::ps {
namespace {

rpc::HttpServer open_metrics_port(int port) {
  check_argument(port >= 0 && port <= 65535,
                 "The port of a server's metrics is from 1 to 65535, or 0 for any, not ", port,
                 ".");
  try {
    return rpc::HttpServer(port);
  } catch (const Error& error) {
    throw Error(error.code(), "The port of the metrics: ", error.what(), " 0 takes a free one.");
  }
}

}  // namespace

class MetricsPage::Loop {
 public:
  Loop(int port, std::function<std::string()> text)
      : text_(std::move(text)),
        server_(open_metrics_port(port)),
        port_(server_.port()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~Loop() {
    is_ending_ = true;
    constexpr std::uint64_t kOne = 1;
    [[maybe_unused]] const auto written = ::write(wake_.number(), &kOne, sizeof(kOne));
    thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  int port() const { return port_; }

 private:
  void run() {
    std::vector<pollfd> waiting;
    while (!is_ending_) {
      waiting = {{.fd = wake_.number(), .events = POLLIN, .revents = 0}};
      server_.add_to(waiting);
      ::poll(waiting.data(), waiting.size(), milliseconds_left());
      if (is_ending_) return;
      server_.serve([this](const std::string& path) { return page(path); });
    }
  }

  /// For `poll`: until a connection has lasted for too long.
  int milliseconds_left() const {
    constexpr std::chrono::milliseconds kLongest{1000};  // a wake that was lost ends then
    const auto next = server_.next_deadline();
    const auto now = rpc::HttpServer::Clock::now();
    if (next > now + kLongest) return static_cast<int>(kLongest.count());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
    return static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count());
  }

  rpc::HttpAnswer page(const std::string& path) const {
    if (path != "/metrics") return {.status = "404 Not Found", .body = "there is /metrics\n"};
    try {
      return {.content_type = rpc::kMetricsContentType, .body = text_()};
    } catch (const std::exception&) {
      return {.status = "500 Internal Server Error", .body = "the metrics are not available now\n"};
    }
  }

  const std::function<std::string()> text_;
  rpc::HttpServer server_;  // of the thread
  const int port_;
  const base::FileDescriptor wake_;  // an eventfd
  std::atomic<bool> is_ending_{false};
  std::jthread thread_;  // last: it uses the others
};

MetricsPage::MetricsPage(int port, std::function<std::string()> text)
    : loop_(std::make_unique<Loop>(port, std::move(text))) {}
MetricsPage::~MetricsPage() = default;

int MetricsPage::port() const {
  return loop_->port();
}

}  // namespace brigade::ps
