#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "brigade/base/handles.h"

namespace brigade::rpc {

/// What is answered to `GET` of a page.
struct HttpAnswer {
  std::string status = "200 OK";
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// The page at a path, "/metrics".
using HttpPages = std::function<HttpAnswer(const std::string& path)>;

/// The complete HTTP response to a request's header.
std::string http_response(const std::string& head, const HttpPages& pages);

/// Answers `GET` on loopback, for pages about a process that runs: its status, its metrics. It runs
/// in its owner's poll loop: it has no thread and never blocks. Clients that send nothing, too much
/// or garbage, or that do not read, are disconnected after a timeout, and earlier if many
/// connections are open: a new one is always accepted.
///
/// Thread-safety: one thread at a time.
class HttpServer {
 public:
  using Clock = std::chrono::steady_clock;

  /// The connections that are open at a time.
  static constexpr std::size_t kMostConnections = 64;
  /// How long a connection may last.
  static constexpr std::chrono::seconds kPatience{5};

  /// Listens on 127.0.0.1; port 0 takes a free one. Throws kUnavailable, naming the port.
  explicit HttpServer(int port);

  int port() const { return port_; }
  void add_to(std::vector<pollfd>& waiting) const;
  /// Reads requests and sends answers. `pages` is called when a request needs it.
  void serve(const HttpPages& pages);
  /// When the next connection times out; max without one.
  Clock::time_point next_deadline() const;

 private:
  struct Connection {
    base::FileDescriptor socket;
    Clock::time_point deadline;
    std::string request = {};
    std::string answer = {};
  };
  void accept_some();
  void cut_off_oldest();
  /// Whether the connection is over.
  bool advance(Connection& connection, const HttpPages& pages);

  base::FileDescriptor listener_;
  int port_ = 0;
  std::list<Connection> connections_;
};

}  // namespace brigade::rpc
