#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// What Open MPI's mpirun tells its processes: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and
/// _LOCAL_SIZE; nothing without the first. Rank 0 holds the meeting point: on one host at
/// 127.0.0.1; on several at MASTER_ADDR, which has to name rank 0's host (`mpirun -x
/// MASTER_ADDR=...`), as Open MPI does not. The port is MASTER_PORT, else made from the job's name.
/// Throws kInvalidArgument, naming the variable that is missing or wrong.
std::optional<ClusterConfig> resolve_open_mpi(const Environment& environment);

}  // namespace brigade::cluster
