#pragma once

#include <memory>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/local/local_group.h"

namespace brigade::comm {

/// How the replicas of a job lie in its processes.
struct ProcessLayout {
  int process = 0;
  /// [process]: its replicas. They may differ from process to process.
  std::vector<int> replicas = {1};

  int num_replicas() const;
  /// The first of this process's replicas among all.
  int first_replica() const;
};

/// Communicators of this process's replicas, by local rank, among all replicas of all processes:
/// values meet within the process first, replica 0's thread then carries the process's part to the
/// others, over `across`, and everybody takes the result. Reductions add the processes' sums in
/// the order of processes. With one process it is `local` alone.
std::vector<std::unique_ptr<Communicator>> make_hierarchical_communicators(
    std::shared_ptr<LocalGroup> group, std::vector<std::unique_ptr<Communicator>> local,
    std::shared_ptr<Communicator> across, const ProcessLayout& layout);

}  // namespace brigade::comm
