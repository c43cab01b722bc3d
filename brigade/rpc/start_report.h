#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"

namespace brigade::rpc {

/// Names a rank and its address: "/job:worker/task:1 at b:2222 (rank 1)", or "rank 1" if the
/// configuration has no addresses ("host 1" if that is the job of its task).
std::string describe_rank(const cluster::ClusterConfig& config, int rank);

/// "1 of 4 processes did not join within 30 s: /job:worker/task:1 at b:2222 (rank 1)."
std::string missing_text(const cluster::ClusterConfig& config, const std::vector<int>& missing,
                         std::chrono::milliseconds waited);

/// "Waiting for 1 of 4 processes: /job:worker/task:1 at b:2222 (rank 1)"; names at most eight.
std::string waiting_text(const cluster::ClusterConfig& config, const std::vector<int>& missing);

/// The process that serves the rendezvous, for "... could not be reached".
std::string describe_host(const cluster::ClusterConfig& config);

/// The warning of a process that serves the rendezvous without a cluster key.
std::string keyless_text(const cluster::ClusterConfig& config);

/// Logs which processes a start waits for, each time that they change. Thread-safety: one thread.
class WaitingLog {
 public:
  void report(const std::string& text);
  /// Logs that all have joined, if something was logged before.
  void report_all_joined(int world_size) const;

 private:
  std::string last_;
};

}  // namespace brigade::rpc
