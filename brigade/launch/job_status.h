#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "brigade/base/handles.h"

namespace brigade::launch {

/// The status of a running job.
struct JobStatus {
  int generation = 0;
  int restarts = 0;
  int membership_changes = 0;
  double seconds = 0;  ///< since the launcher started
  int first_rank = 0;
  std::vector<bool> up;      ///< by rank, from `first_rank` on: whether its process runs
  bool is_stopping = false;  ///< because one failed, was lost, or a signal came
};

/// In Prometheus's text format, version 0.0.4.
std::string to_metrics(const JobStatus& status);

/// Answers `GET /healthz` (200 while the job runs, 503 while it is being stopped) and `GET
/// /metrics` (Prometheus) on loopback. It runs in its owner's poll loop: it has no thread and never
/// blocks. Clients that send nothing, too much or garbage, or that do not read, are disconnected
/// after a timeout, and earlier if many connections are open: a new one is always accepted.
///
/// Thread-safety: one thread at a time.
class StatusServer {
 public:
  using Clock = std::chrono::steady_clock;

  /// Listens on 127.0.0.1; port 0 takes a free one. Throws kUnavailable, naming the port.
  explicit StatusServer(int port);

  int port() const { return port_; }
  void add_to(std::vector<pollfd>& waiting) const;
  /// Reads requests and sends answers. `status` is called when a request needs it.
  void serve(const std::function<JobStatus()>& status);
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
  bool advance(Connection& connection, const std::function<JobStatus()>& status);

  base::FileDescriptor listener_;
  int port_ = 0;
  std::list<Connection> connections_;
};

/// The complete HTTP response to a request's header.
std::string http_answer(const std::string& head, const std::function<JobStatus()>& status);

}  // namespace brigade::launch
