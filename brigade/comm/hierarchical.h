#pragma once

#include <memory>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/local/local_group.h"

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

/// Makes communicators among all replicas of all processes, and returns those of this process's
/// replicas, by local rank. A reduction is made within each process first; then local rank 0
/// reduces the result over `across`, and the others copy it. Additions are made in rank order
/// within a process, and the processes' sums are added in the order of processes, so bits depend
/// on the layout alone. With one process it returns `local`.
std::vector<std::unique_ptr<Communicator>> make_hierarchical_communicators(
    std::shared_ptr<LocalGroup> group, std::vector<std::unique_ptr<Communicator>> local,
    std::shared_ptr<Communicator> across, const ProcessLayout& layout);

}  // namespace brigade::comm
