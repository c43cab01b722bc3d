#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_json.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// What a program's flags say of its cluster; all may be empty.
struct ResolveOptions {
  /// The tasks and their addresses: "chief=a:1;worker=b:1,c:1", the JSON of `TF_CONFIG` itself, or
  /// the path of a file that holds it.
  std::string cluster = {};
  /// Which of them this process is: "worker:1". Takes the place of the task that JSON names.
  std::string task = {};
};

/// Finds out which cluster this process is in. Asks, and takes the first that is there:
///
///   1. the flags (`options`): the most explicit;
///   2. `brigade launch` (BRIGADE_RENDEZVOUS);
///   3. `TF_CONFIG`, where it describes a cluster;
///   4. torchrun and its like (RANK);
///   5. a Kubernetes indexed job (BRIGADE_KUBERNETES_COMPLETIONS);
///   6. Open MPI (OMPI_COMM_WORLD_RANK), which may run inside a Slurm job;
///   7. Slurm (SLURM_STEP_NODELIST);
///   8. none: a cluster of one, whose `source` is kNoCluster.
///
/// Throws kInvalidArgument, beginning with the source, for whatever is wrong with the first that is
/// there: it never goes on to the next one; kNotFound for a file that does not exist.
ClusterConfig resolve_cluster(const Environment& environment = process_environment(),
                              const ResolveOptions& options = {});

/// `ClusterConfig::source` of a process that nobody told of a cluster.
inline constexpr const char* kNoCluster = "no cluster described";

/// The sources in `environment` that describe a cluster, in the order above, by name: all but the
/// first are not looked at. Checks none of them.
std::vector<std::string> cluster_sources(const Environment& environment);

/// Reads the three forms of `ResolveOptions::cluster`. Throws as `resolve_cluster`.
DescribedCluster parse_cluster(const std::string& text);

}  // namespace brigade::cluster
