#pragma once

#include <optional>
#include <string>

#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that say who trains together, and how they exchange tensors.
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
  /// Sets what they say in `options`. Throws UsageError.
  void apply_to(distribute::MultiWorkerMirroredOptions& options) const;
  /// Who this process is. Throws as cluster::resolve_cluster.
  cluster::ClusterConfig resolve() const;
};

}  // namespace brigade::command
