#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"
#include "brigade/distribute/strategy.h"

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

/// The flags that choose the strategy and its devices.
struct StrategyFlags {
  std::string strategy = "one_device";
  std::string devices;
  std::string controller;
  bool log_device_placement = false;
  int threads_per_replica = 1;
  bool allow_oversubscription = false;
  std::int64_t seed = 0;
  ClusterFlags cluster;

  void add_to(CLI::App& app);
  /// The strategy, with its replicas' threads running. Throws UsageError for flags that cannot
  /// work, and the strategy's errors for devices that do not fit.
  std::unique_ptr<distribute::Strategy> make() const;
  /// Whether this process is a cluster's evaluator, which takes no part in the strategy. Throws
  /// UsageError for an invalid description of the cluster.
  bool is_evaluator() const;
};

/// Whether the strategy keeps variables on a controller.
bool has_controller(const StrategyFlags& flags);

/// The short names of the devices of `strategy`, in replica order.
std::vector<std::string> device_names(const distribute::Strategy& strategy);

}  // namespace brigade::command
