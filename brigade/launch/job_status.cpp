#include "brigade/launch/job_status.h"

#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

template <class T>
std::string metric(const char* name, const char* type, const char* help, const T& value) {
  return base::str_cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n", name, " ",
                       value, "\n");
}

}  // namespace

std::string to_metrics(const JobStatus& status) {
  std::string text =
      metric("brigade_job_generation", "gauge", "Which start of the job runs; the first is 0.",
             status.generation) +
      metric("brigade_job_processes", "gauge", "Processes of this generation on this host.",
             status.up.size()) +
      metric("brigade_job_restarts_total", "counter", "Restarts after failures.", status.restarts) +
      metric("brigade_job_membership_changes_total", "counter",
             "Restarts with another number of processes, or that a process asked for.",
             status.membership_changes) +
      metric("brigade_job_uptime_seconds", "gauge", "Since the launcher started.", status.seconds);
  text +=
      "# HELP brigade_rank_up Whether the rank's process runs.\n"
      "# TYPE brigade_rank_up gauge\n";
  for (std::size_t i = 0; i < status.up.size(); ++i) {
    text += base::str_cat("brigade_rank_up{rank=\"", status.first_rank + static_cast<int>(i),
                          "\"} ", status.up[i] ? 1 : 0, "\n");
  }
  return text;
}

}  // namespace brigade::launch
