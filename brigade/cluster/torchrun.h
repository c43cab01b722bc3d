#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// Reads the environment of torchrun, which Kubeflow's PyTorchJob and others also set: RANK,
/// WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and optionally LOCAL_RANK, LOCAL_WORLD_SIZE and
/// TORCHELASTIC_RESTART_COUNT; nothing without RANK. Rank 0 serves the rendezvous at
/// MASTER_ADDR:MASTER_PORT, or at the next port if torchrun uses that one for its own store
/// (TORCHELASTIC_USE_AGENT_STORE). Throws kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_torchrun(const Environment& environment);

}  // namespace brigade::cluster
