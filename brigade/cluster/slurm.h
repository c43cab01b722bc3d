#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Expands a host list in Slurm's format: "n[1-2],m5,o[3-4,08]" is n1, n2, m5, o3, o4, o08. A host
/// may have several brackets. Throws kInvalidArgument, quoting the list and naming the mistake,
/// also for more than 65,536 hosts. TensorFlow: expand_hostlist.
std::vector<std::string> expand_hostlist(std::string_view list);

/// Expands the number of tasks of each host: "3(x2),2,1" is 3, 3, 2, 1. Throws as above.
/// TensorFlow: expand_tasks_per_node.
std::vector<int> expand_tasks_per_node(std::string_view list);

}  // namespace brigade::cluster
