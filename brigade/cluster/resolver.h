#pragma once

#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_json.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// A program's flags about its cluster; all may be empty.
struct ResolveOptions {
  /// The tasks and their addresses: "chief=a:1;worker=b:1,c:1", the JSON of `TF_CONFIG` itself, or
  /// the path of a file that holds it.
  std::string cluster = {};
  /// The task of this process: "worker:1". Overrides the task in the JSON.
  std::string task = {};
};

/// Finds the cluster of this process. Uses the first of these sources that is present:
///
///   1. the flags (`options`);
///   2. `brigade launch` (BRIGADE_RENDEZVOUS);
///   3. `TF_CONFIG`, if it describes a cluster;
///   4. torchrun and compatible launchers (RANK);
///   5. a Kubernetes indexed job (BRIGADE_KUBERNETES_COMPLETIONS);
///   6. Open MPI (OMPI_COMM_WORLD_RANK), which may run inside a Slurm job;
///   7. Slurm (SLURM_STEP_NODELIST);
///   8. none: a cluster of one process, whose `source` is kNoCluster.
///
/// Throws kInvalidArgument, beginning with the source, if the first present source is wrong, and
/// does not try the next one; kNotFound for a file that does not exist.
ClusterConfig resolve_cluster(const Environment& environment = process_environment(),
                              const ResolveOptions& options = {});

/// `ClusterConfig::source` of a process without a cluster.
inline constexpr const char* kNoCluster = "no cluster described";

/// The names of the sources in `environment` that describe a cluster, in the order above. Only the
/// first is used. Does not check them.
std::vector<std::string> cluster_sources(const Environment& environment);

/// Parses the three forms of `ResolveOptions::cluster`. Throws as `resolve_cluster`.
DescribedCluster parse_cluster(const std::string& text);

}  // namespace brigade::cluster
