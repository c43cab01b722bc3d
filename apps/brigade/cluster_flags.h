#pragma once

#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/resolver.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/rpc/rendezvous.h"

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
  void apply_to(rpc::JoinOptions& join, comm::CommunicationOptions& communication) const;
  /// The cluster and this process's task in it. Throws as cluster::resolve_cluster.
  cluster::ClusterConfig resolve() const;
  /// That of `--key-file`, or else of the environment. Throws as cluster::ClusterKey.
  std::optional<cluster::ClusterKey> key() const;
  /// Throws UsageError, naming the first, for flags about other processes, which `strategy` has
  /// not.
  void check_no_workers(const std::string& strategy) const;
  /// Throws UsageError, naming the first, for flags about collectives, which `strategy` has not.
  void check_no_collectives(const std::string& strategy) const;
  /// Throws UsageError, naming the first flag that was given, of how gradients are sent.
  void check_full_values(const std::string& strategy) const;
};

}  // namespace brigade::command
