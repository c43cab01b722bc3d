#pragma once

#include <string_view>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_json.h"

namespace brigade::cluster {

/// The configuration of the process `described.task` in `described.cluster`: its rank, the world
/// size, and the rendezvous at the address of the first training task. In a cluster of one task,
/// `described.task` may be unset. The evaluator need not be listed in the cluster, as in
/// TensorFlow.
///
/// Throws kInvalidArgument, beginning with `source`: for a job other than chief, worker, ps and
/// evaluator; more than one chief or evaluator; no training task; no task, or one whose job or
/// index the cluster does not have. Thread-safety: a pure function.
ClusterConfig assign_rank(DescribedCluster described, std::string_view source);

}  // namespace brigade::cluster
