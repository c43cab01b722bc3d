#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// Reads the environment of Open MPI's mpirun: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and
/// _LOCAL_SIZE; nothing without the first. Rank 0 serves the rendezvous: on one host at 127.0.0.1;
/// on several at MASTER_ADDR, which must name rank 0's host (`mpirun -x MASTER_ADDR=...`), because
/// Open MPI does not set it. The port is MASTER_PORT, else derived from the job's name. Throws
/// kInvalidArgument, naming the missing or wrong variable.
std::optional<ClusterConfig> resolve_open_mpi(const Environment& environment);

}  // namespace brigade::cluster
