#pragma once

#include <string_view>

#include "brigade/cluster/cluster_spec.h"

namespace brigade::cluster {

/// Reads a cluster as flags write it: "chief=a:1;worker=b:1,c:1". Throws kInvalidArgument, quoting
/// the part that is wrong, and as `ClusterSpec` does. Thread-safety: a pure function.
ClusterSpec parse_cluster_flag(std::string_view text);

/// Reads a task as flags write it: "worker:1", "chief" for its only task, or "/job:worker/task:1".
/// Throws kInvalidArgument, quoting the text. Thread-safety: a pure function.
Task parse_task_flag(std::string_view text);

}  // namespace brigade::cluster
