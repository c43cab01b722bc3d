#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"

namespace brigade::rpc {

/// Who a rank is and where it was expected: "/job:worker/task:1 at b:2222 (rank 1)", or "rank 1"
/// where the configuration has no addresses.
std::string describe_rank(const cluster::ClusterConfig& config, int rank);

/// "1 of 4 processes did not come within 30 s: /job:worker/task:1 at b:2222 (rank 1)."
std::string missing_text(const cluster::ClusterConfig& config, const std::vector<int>& missing,
                         std::chrono::milliseconds waited);

/// Who holds the meeting point, for "... could not be reached".
std::string describe_host(const cluster::ClusterConfig& config);

}  // namespace brigade::rpc
