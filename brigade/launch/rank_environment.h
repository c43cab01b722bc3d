#pragma once

#include <map>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"

namespace brigade::launch {

/// What one process is to know of the job.
struct RankPlace {
  int rank = 0;
  int world_size = 1;
  int generation = 0;
  /// Of the processes on its host; unset: as in the whole job.
  std::optional<int> local_rank = std::nullopt;
  std::optional<int> local_world_size = std::nullopt;
  std::string rendezvous = {};
  /// CUDA_VISIBLE_DEVICES; unset: left as it is.
  std::optional<std::string> gpus = std::nullopt;
};

/// The environment variables that tell it (cluster/launch_environment.h). The key goes along,
/// where there is one.
std::map<std::string, std::string> rank_environment(const RankPlace& place,
                                                    const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::launch
