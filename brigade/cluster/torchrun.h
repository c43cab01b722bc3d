#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// The environment that torchrun gives its processes, and Kubeflow's PyTorchJob and others after
/// it: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and if there are LOCAL_RANK, LOCAL_WORLD_SIZE
/// and TORCHELASTIC_RESTART_COUNT; nothing without RANK. Rank 0 holds the meeting point at
/// MASTER_ADDR:MASTER_PORT; where torchrun keeps that port for a store of its own
/// (TORCHELASTIC_USE_AGENT_STORE), at the port after it. Throws kInvalidArgument, naming the
/// variable that is missing or wrong.
std::optional<ClusterConfig> resolve_torchrun(const Environment& environment);

}  // namespace brigade::cluster
