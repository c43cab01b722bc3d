#pragma once

#include <string>
#include <vector>

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

}  // namespace brigade::launch
