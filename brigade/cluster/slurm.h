#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// Reads the environment of a task of Slurm's srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS,
/// SLURM_STEP_NODELIST, SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE and SLURM_NODEID; nothing without
/// SLURM_STEP_NODELIST, as in a batch script, which is one process whatever the job's size. Rank 0
/// serves the rendezvous on the step's first host, or at MASTER_ADDR; the port is MASTER_PORT,
/// else derived from the numbers of job and step. Throws kInvalidArgument, naming the variable that
/// is missing or wrong. TensorFlow: tf.distribute.cluster_resolver.SlurmClusterResolver.
std::optional<ClusterConfig> resolve_slurm(const Environment& environment);

}  // namespace brigade::cluster
