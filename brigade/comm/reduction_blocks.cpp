#include "brigade/comm/reduction_blocks.h"

#include <algorithm>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/comm/exchange/call_header.h"

namespace brigade::comm {

namespace {

ReductionTree tree_of(std::span<const int> sizes) {
  for (const int size : sizes)
    check_argument(size >= 1, "A rank has at least one leaf, not ", size, ".");
  const int leaves = std::accumulate(sizes.begin(), sizes.end(), 0);
  std::vector<LeafRange> parts;
  int begin = 0;
  for (const int size : sizes) {
    for (const LeafRange& part : ReductionTree::whole_subtrees(leaves, {begin, begin + size}))
      parts.push_back(part);
    begin += size;
  }
  return {leaves, std::move(parts)};
}

}  // namespace

ReductionBlocks::ReductionBlocks(std::span<const int> sizes) : tree_(tree_of(sizes)) {
  first_part_.push_back(0);
  int end = 0;
  std::size_t part = 0;
  for (const int size : sizes) {
    end += size;
    while (part < tree_.parts().size() && tree_.parts()[part].end <= end) ++part;
    first_part_.push_back(part);
  }
}

ReductionBlocks ReductionBlocks::one_each(int ranks) {
  return ReductionBlocks(std::vector<int>(static_cast<std::size_t>(std::max(ranks, 0)), 1));
}

std::vector<LeafRange> ReductionBlocks::own_parts_of(int rank) const {
  std::vector<LeafRange> parts;
  const int first = parts_of(rank).front().begin;
  for (const LeafRange& part : parts_of(rank))
    parts.push_back({part.begin - first, part.end - first});
  return parts;
}

std::size_t ReductionBlocks::most_parts() const {
  std::size_t most = 0;
  for (int rank = 0; rank < num_ranks(); ++rank) most = std::max(most, num_parts(rank));
  return most;
}

std::uint64_t ReductionBlocks::digest() const {
  std::uint64_t digest = 1;
  for (int rank = 0; rank < num_ranks(); ++rank)
    digest = mix(digest, static_cast<std::uint64_t>(parts_of(rank).back().end));
  return digest;
}

}  // namespace brigade::comm
