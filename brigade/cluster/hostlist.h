#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brigade::cluster {

/// Expands a host list in Slurm's format: "n[1-2],m5,o[3-4,08]" is n1, n2, m5, o3, o4, o08. A host
/// may have several brackets. Throws kInvalidArgument, quoting the list and naming the mistake,
/// also for more than 65,536 hosts. TensorFlow: expand_hostlist.
std::vector<std::string> expand_hostlist(std::string_view list);

/// Expands the number of tasks of each host: "3(x2),2,1" is 3, 3, 2, 1. Throws as above.
/// TensorFlow: expand_tasks_per_node.
std::vector<int> expand_tasks_per_node(std::string_view list);

}  // namespace brigade::cluster
