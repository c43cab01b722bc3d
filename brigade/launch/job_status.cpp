#include "brigade/launch/job_status.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/metrics_text.h"

namespace brigade::launch {

std::string to_metrics(const JobStatus& status) {
  std::vector<std::pair<std::string, int>> up;
  for (std::size_t i = 0; i < status.up.size(); ++i)
    up.emplace_back(base::str_cat(status.first_rank + static_cast<int>(i)), status.up[i] ? 1 : 0);
  rpc::MetricsText metrics;
  metrics
      .gauge("brigade_job_generation", "Which start of the job runs; the first is 0.",
             status.generation)
      .gauge("brigade_job_processes", "Processes of this generation on this host.",
             status.up.size())
      .counter("brigade_job_restarts_total", "Restarts after failures.", status.restarts)
      .counter("brigade_job_membership_changes_total",
               "Restarts with another number of processes, or that a process asked for.",
               status.membership_changes)
      .gauge("brigade_job_uptime_seconds", "Since the launcher started.", status.seconds)
      .gauges("brigade_rank_up", "Whether the rank's process runs.", "rank", up);
  return metrics.text();
}

rpc::HttpPages status_pages(std::function<JobStatus()> status) {
  return [status = std::move(status)](const std::string& path) -> rpc::HttpAnswer {
    if (path == "/healthz") {
      if (status().is_stopping) return {.status = "503 Service Unavailable", .body = "stopping\n"};
      return {.body = "ok\n"};
    }
    if (path == "/metrics")
      return {.content_type = rpc::kMetricsContentType, .body = to_metrics(status())};
    return {.status = "404 Not Found", .body = "there are /healthz and /metrics\n"};
  };
}

rpc::HttpServer open_status_port(int port) {
  try {
    return rpc::HttpServer(port);
  } catch (const Error& error) {
    throw Error(error.code(), "The status port: ", error.what(), " 0 takes a free one.");
  }
}

}  // namespace brigade::launch
