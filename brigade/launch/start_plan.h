#pragma once

#include <string>
#include <vector>

#include "brigade/launch/child_process.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/resources.h"

namespace brigade::launch {

/// The ranks of one generation on this host, and the addresses of its rendezvous.
struct GenerationConfig {
  int generation = 0;
  int world_size = 1;
  int first_rank = 0;           ///< of this host
  std::string rendezvous = {};  ///< empty: none
  std::string master = {};
  std::string cluster = {};  ///< with roles: the addresses of all tasks, in TF_CONFIG's form
};

/// How to start each process of a generation: its program and arguments, its environment and its
/// resources. `slices` has one element per process of this host.
std::vector<SpawnOptions> plan_start(const JobOptions& options, const GenerationConfig& generation,
                                     const std::vector<ResourceSlice>& slices);

}  // namespace brigade::launch
