#pragma once

#include <optional>
#include <string>

#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that describe the cluster, and how its processes exchange tensors.
struct ClusterFlags {
  std::string cluster;
  std::string task;
  std::string key_file;
  double start_timeout_seconds = 300.0;
  double peer_timeout_seconds = 8.0;
  std::string transport = "auto";
  std::string wire = "full";
  std::string bytes_per_pack = "0";

  void add_to(CLI::App& app);
  /// Sets `options` as the flags say. Throws UsageError.
  void apply_to(distribute::MultiWorkerMirroredOptions& options) const;
  /// The cluster and this process's task in it. Throws as cluster::resolve_cluster.
  cluster::ClusterConfig resolve() const;
};

}  // namespace brigade::command
