#pragma once

#include <vector>

namespace brigade::comm {

/// How the replicas of a job are distributed over its processes.
struct ProcessLayout {
  int process = 0;
  /// [process]: its number of replicas, which may differ between processes.
  std::vector<int> replicas = {1};

  int num_replicas() const;
  /// The global rank of this process's first replica.
  int first_replica() const;
};

}  // namespace brigade::comm
