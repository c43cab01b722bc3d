#pragma once

#include <map>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"

namespace brigade::launch {

/// What one process is to know of the job.
struct RankConfig {
  int rank = 0;
  int world_size = 1;
  int generation = 0;
  /// Of the processes on its host, and which host that is.
  int local_rank = 0;
  int local_world_size = 1;
  int host = 0;
  /// "host:port" where processes meet by Brigade's means; empty: nowhere.
  std::string rendezvous = {};
  /// "host:port" where rank 0 can listen for programs that meet by PyTorch's own means.
  std::string master = {};
  /// CUDA_VISIBLE_DEVICES; unset: left as it is.
  std::optional<std::string> gpus = std::nullopt;
  /// NCCL_SOCKET_IFNAME; unset: left as it is.
  std::optional<std::string> nccl_interface = std::nullopt;
  /// BRIGADE_GPU_MEMORY_FRACTION (brigade/device); unset: left as it is.
  std::optional<double> gpu_memory_fraction = std::nullopt;
};

/// The environment variables that tell it (cluster/launch_environment.h); nothing for one that must
/// not be there. Where there is a key, the path under which the process finds it; never its text.
std::map<std::string, std::optional<std::string>> rank_environment(
    const RankConfig& config, const std::optional<cluster::ClusterKey>& key);

/// What a process learns that has nothing to do with the others of its job: only its place on this
/// host and its GPUs. Variables that would make it look for others are taken away, and the key.
std::map<std::string, std::optional<std::string>> independent_environment(const RankConfig& config);

/// The host with a port that was free just now; this machine must have the host.
std::string free_address(const std::string& host);

}  // namespace brigade::launch
