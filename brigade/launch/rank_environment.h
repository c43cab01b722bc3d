#pragma once

#include <map>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/roles.h"

namespace brigade::launch {

/// The configuration of one process of a job.
struct RankConfig {
  int rank = 0;
  int world_size = 1;
  int generation = 0;
  /// The rank and the number of processes on its host, and the host's index.
  int local_rank = 0;
  int local_world_size = 1;
  int host = 0;
  /// "host:port" of the Brigade rendezvous; empty: none.
  std::string rendezvous = {};
  /// "host:port" on which rank 0 can listen, for programs that use PyTorch's rendezvous.
  std::string master = {};
  /// The addresses of all tasks of a job with roles, in TF_CONFIG's form.
  std::string cluster = {};
  /// CUDA_VISIBLE_DEVICES; unset: left as it is.
  std::optional<std::string> gpus = std::nullopt;
  /// NCCL_SOCKET_IFNAME; unset: left as it is.
  std::optional<std::string> nccl_interface = std::nullopt;
  /// BRIGADE_GPU_MEMORY_FRACTION (brigade/device); unset: left as it is.
  std::optional<double> gpu_memory_fraction = std::nullopt;
};

/// The environment variables with that configuration (cluster/environment_variables.h); nullopt for
/// a variable to remove. With a key they hold the path of the key, never its text.
std::map<std::string, std::optional<std::string>> rank_environment(
    const RankConfig& config, const std::optional<cluster::ClusterKey>& key);

/// The variables of an independent process: only its local rank and its GPUs. Variables that would
/// make it join other processes are removed, and so is the key.
std::map<std::string, std::optional<std::string>> independent_environment(const RankConfig& config);

/// The variables of a task of a job with roles: `TF_CONFIG`, its generation (how often it was
/// restarted), its local rank, its GPUs, the path of the key, and for a parameter server its
/// folder.
std::map<std::string, std::optional<std::string>> task_environment(
    const RankConfig& config, const std::optional<cluster::ClusterKey>& key, const Roles& roles);

/// `host`, which must be this machine, with a port that was free a moment ago.
std::string free_address(const std::string& host);

}  // namespace brigade::launch
