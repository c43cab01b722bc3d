#pragma once

#include <string>
#include <vector>

#include "brigade/launch/child_process.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/resources.h"

namespace brigade::launch {

/// Where the processes of one generation stand, and where they meet.
struct GenerationConfig {
  int generation = 0;
  int world_size = 1;
  int first_rank = 0;           ///< of this host
  std::string rendezvous = {};  ///< empty: nowhere
  std::string master = {};
};

/// How each process of a generation is to be started: its program with its own arguments, who it
/// is, and what it may use. `slices` has one element a process of this host.
std::vector<SpawnOptions> plan_start(const JobOptions& options, const GenerationConfig& generation,
                                     const std::vector<ResourceSlice>& slices);

}  // namespace brigade::launch
