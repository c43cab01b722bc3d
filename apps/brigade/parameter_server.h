#pragma once

#include <optional>

#include "apps/brigade/report.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/io/file_system.h"

namespace brigade::command {

/// What to do with variables that an earlier process of the server has left in its folder.
enum class EarlierState {
  kRestore,  ///< the training continues with them
  kRemove    ///< a new training begins; a server that the launcher has restarted restores
};

/// A parameter server, as flags and environment describe it.
struct ParameterServerRun {
  cluster::ClusterConfig cluster;
  /// Where it keeps its variables, below "ps-<index>", or "ps-<index>-replica". A launcher's folder
  /// (`cluster::kServerFolderVariable`) precedes it. Empty: a temporary folder, which does not
  /// outlive the process.
  io::Path folder = {};
  std::optional<cluster::ClusterKey> key = std::nullopt;
  EarlierState earlier = EarlierState::kRestore;
  std::optional<int> metrics_port = std::nullopt;  ///< `ps::ServerOptions::metrics_port`
  OutputFlag output = {};
};

/// Serves variables as the "ps" or "ps_replica" task that this process is, until the training has
/// ended, or a signal comes. After a training that ended, its variables are removed from the
/// folder: the chief's checkpoint has them. Returns the exit code. Throws UsageError for another
/// task, and for a folder or an address that cannot be used.
int run_parameter_server(const ParameterServerRun& run);

}  // namespace brigade::command
