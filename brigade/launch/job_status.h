#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brigade/rpc/http_server.h"

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

/// The pages of the launcher's status port: `/healthz` (200 while the job runs, 503 while it is
/// being stopped) and `/metrics` (Prometheus). `status` is called when a page needs it.
rpc::HttpPages status_pages(std::function<JobStatus()> status);

/// Listens on 127.0.0.1; port 0 takes a free one. Throws kUnavailable, naming the port.
rpc::HttpServer open_status_port(int port);

}  // namespace brigade::launch
