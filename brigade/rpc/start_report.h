#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"

namespace brigade::rpc {

/// Who a rank is and where it was expected: "/job:worker/task:1 at b:2222 (rank 1)", or "rank 1"
/// where the configuration has no addresses ("host 1" if that is what its task is called).
std::string describe_rank(const cluster::ClusterConfig& config, int rank);

/// "1 of 4 processes did not come within 30 s: /job:worker/task:1 at b:2222 (rank 1)."
std::string missing_text(const cluster::ClusterConfig& config, const std::vector<int>& missing,
                         std::chrono::milliseconds waited);

/// "PendingCall for 1 of 4 processes: /job:worker/task:1 at b:2222 (rank 1)"; of many the first few.
std::string waiting_text(const cluster::ClusterConfig& config, const std::vector<int>& missing);

/// Who holds the meeting point, for "... could not be reached".
std::string describe_host(const cluster::ClusterConfig& config);

/// What it means that this process, which serves the meeting point, has no cluster key.
std::string keyless_text(const cluster::ClusterConfig& config);

/// Tells the log whom a start waits for, each time that it is somebody else. Thread-safety: one
/// thread.
class WaitingLog {
 public:
  void report(const std::string& text);
  /// Only behind something that was said.
  void report_all_joined(int world_size) const;

 private:
  std::string last_;
};

}  // namespace brigade::rpc
