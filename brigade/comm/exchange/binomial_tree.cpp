#include "brigade/comm/exchange/binomial_tree.h"

#include <algorithm>

namespace brigade::comm {

namespace {

/// The rank counted from the root, whose relative rank is 0. The parent of a relative rank is that
/// number without its lowest bit.
int relative_rank(int rank, int root, int world_size) {
  return (rank - root + world_size) % world_size;
}

}  // namespace

std::vector<int> binomial_children(int rank, int root, int world_size) {
  const int relative = relative_rank(rank, root, world_size);
  std::vector<int> children;
  for (int bit = 1; relative + bit < world_size && (relative & bit) == 0; bit <<= 1)
    children.push_back((relative + bit + root) % world_size);
  std::reverse(children.begin(), children.end());
  return children;
}

int binomial_parent(int rank, int root, int world_size) {
  const int relative = relative_rank(rank, root, world_size);
  return ((relative & (relative - 1)) + root) % world_size;
}

}  // namespace brigade::comm
