#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "brigade/launch/file_descriptor.h"
#include "brigade/launch/job_status.h"

namespace brigade::launch {

/// Answers `GET /healthz` (200 while the job runs, 503 while it is being stopped) and `GET
/// /metrics` (Prometheus) on loopback, from the loop of whoever owns it: it has no thread and never
/// blocks. Whoever says nothing, nonsense or too much, or does not read, is cut off after a while,
/// and earlier where many connections are open: a new one always finds a place.
///
/// Thread-safety: one thread at a time.
class StatusServer {
 public:
  using Clock = std::chrono::steady_clock;

  /// Listens on 127.0.0.1; port 0 takes a free one. Throws kUnavailable, naming the port.
  explicit StatusServer(int port);

  int port() const { return port_; }
  void add_to(std::vector<pollfd>& waiting) const;
  /// Takes what came and sends what can be sent. `status` is asked when somebody wants to know.
  void serve(const std::function<JobStatus()>& status);
  /// When the first connection has to be cut off; max without one.
  Clock::time_point next_deadline() const;

 private:
  struct Connection {
    FileDescriptor socket;
    Clock::time_point deadline;
    std::string request = {};
    std::string answer = {};
  };
  void accept_some();
  void cut_off_oldest();
  /// Whether the connection is over.
  bool advance(Connection& connection, const std::function<JobStatus()>& status);

  FileDescriptor listener_;
  int port_ = 0;
  std::list<Connection> connections_;
};

/// The whole answer to a request's head.
std::string http_answer(const std::string& head, const std::function<JobStatus()>& status);

}  // namespace brigade::launch
