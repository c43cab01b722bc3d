#pragma once

#include <string_view>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_json.h"

namespace brigade::cluster {

/// What the process that is `described.task` needs to know in `described.cluster`: its rank, how
/// many train, and that they meet at the first one's address. A cluster of one task needs no task
/// said. The evaluator need not stand in the cluster, as in TensorFlow.
///
/// Throws kInvalidArgument, beginning with `source`: for a job other than chief, worker, ps and
/// evaluator; more than one chief or evaluator; nobody who trains; no task, or one whose job or
/// index the cluster does not have. Thread-safety: a pure function.
ClusterConfig assign_rank(DescribedCluster described, std::string_view source);

}  // namespace brigade::cluster
