#pragma once

#include <vector>

namespace brigade::comm {

/// The tree by which a broadcast reaches everybody in log2(world_size) rounds, as Gloo's does.
/// To whom `rank` passes on what comes from `root`: the farthest, below which most wait, first.
std::vector<int> binomial_children(int rank, int root, int world_size);

/// From whom `rank`, which is not the root, gets it.
int binomial_parent(int rank, int root, int world_size);

}  // namespace brigade::comm
