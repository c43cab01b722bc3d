#include "brigade/distribute/input/piece_sizes.h"

#include <algorithm>

#include "brigade/input/split.h"

namespace brigade::distribute {

std::vector<std::int64_t> rebatch_sizes(std::int64_t size, std::int64_t full,
                                        const ReplicaRange& replicas) {
  std::vector<std::int64_t> sizes = input::split_sizes(full, replicas.total);
  std::rotate(sizes.begin(), sizes.begin() + replicas.first, sizes.end());
  std::int64_t left = size;
  for (std::int64_t& piece : sizes) {
    piece = std::min(piece, left);
    left -= piece;
  }
  return sizes;
}

PieceSizes piece_sizes(AutoShardPolicy policy, const WorkerLayout& layout) {
  if (layout.num_workers == 1) return nullptr;
  if (policy == AutoShardPolicy::kFile || policy == AutoShardPolicy::kHint) {
    return [replicas = layout.replicas](std::int64_t size, std::int64_t full) {
      return rebatch_sizes(size, full, replicas);
    };
  }
  if (policy != AutoShardPolicy::kOff) return nullptr;
  return [workers = layout.num_workers](std::int64_t size, std::int64_t) {
    std::vector<std::int64_t> sizes = input::split_sizes(size, workers);
    std::erase(sizes, 0);  // a step without examples
    return sizes;
  };
}

}  // namespace brigade::distribute
