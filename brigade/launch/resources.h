#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/machine/core_set.h"
#include "brigade/machine/topology.h"

namespace brigade::launch {

/// The resources of one process: its cores, and its GPUs as CUDA_VISIBLE_DEVICES names them.
struct ResourceSlice {
  machine::CoreSet cores;                          ///< empty: not divided
  std::optional<std::string> gpus = std::nullopt;  ///< unset: leave the variable as it is
};

/// Divides the cores of this host among `processes`: adjacent cores stay together, and sizes differ
/// by at most one. Cores are not divided if there are fewer cores than processes or threads must
/// not be pinned. `gpus` (the names in CUDA_VISIBLE_DEVICES, or all GPUs) are divided likewise; if
/// there are fewer GPUs than processes, the processes share them round-robin. Pass no `gpus` to
/// keep the user's own setting.
std::vector<ResourceSlice> divide_resources(const machine::Topology& topology,
                                            const std::optional<std::vector<std::string>>& gpus,
                                            int processes);

/// As `divide_resources`, but divides the GPUs among the first `users` processes only; the others
/// see none.
std::vector<ResourceSlice> divide_resources_for(int users, const machine::Topology& topology,
                                                const std::optional<std::vector<std::string>>& gpus,
                                                int processes);

/// A warning for each GPU that several processes share, naming their ranks. The first process has
/// rank `first_rank`.
std::vector<std::string> shared_cards(const std::vector<ResourceSlice>& slices, int first_rank = 0);

}  // namespace brigade::launch
