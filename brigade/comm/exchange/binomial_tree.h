#pragma once

#include <vector>

namespace brigade::comm {

/// A binomial tree, along which a broadcast reaches all ranks in log2(world_size) rounds, as in
/// Gloo. Returns the ranks to which `rank` forwards what `root` sends: first the one with the
/// largest subtree.
std::vector<int> binomial_children(int rank, int root, int world_size);

/// The rank from which `rank`, which is not the root, receives.
int binomial_parent(int rank, int root, int world_size);

}  // namespace brigade::comm
