#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/machine/core_set.h"
#include "brigade/machine/topology.h"

namespace brigade::launch {

/// What each process of a host may use: its cores, and its GPUs as CUDA_VISIBLE_DEVICES names them.
struct ResourceSlice {
  machine::CoreSet cores;                          ///< empty: not divided
  std::optional<std::string> gpus = std::nullopt;  ///< unset: as it is
};

/// Divides the cores of this host among `processes`, neighbors together, sizes differing by at
/// most one; none is divided where there are fewer cores than processes, or where cores must not be
/// pinned. Of `gpus` ("0,1,2,3", the names in CUDA_VISIBLE_DEVICES or all) each gets its part; with
/// fewer cards than processes they share them in turn. A value that the user has set for one
/// process is not touched: `gpus` unset.
std::vector<ResourceSlice> divide_resources(const machine::Topology& topology,
                                            const std::optional<std::vector<std::string>>& gpus,
                                            int processes);

/// A line for each card that several processes were given, naming them by rank, the first of which
/// is `first_rank`; they share its memory.
std::vector<std::string> shared_cards(const std::vector<ResourceSlice>& slices, int first_rank = 0);

}  // namespace brigade::launch
