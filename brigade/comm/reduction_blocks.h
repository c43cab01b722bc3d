#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "brigade/comm/reduction_tree.h"

namespace brigade::comm {

/// How the leaves of a ReductionTree, such as the replicas of a job, are spread over ranks, such as
/// its processes: each rank has a block of consecutive leaves, and contributes the sums of the
/// largest whole subtrees of its block. Of six leaves on two ranks, rank 0 contributes 0 + 1 and 2,
/// and rank 1 contributes 3 and 4 + 5.
///
/// Blocks that are subtrees contribute one sum each: those of equal size, if it is a power of two.
///
/// Thread-safety: a value.
class ReductionBlocks {
 public:
  /// `sizes[rank]`: its number of leaves. Throws kInvalidArgument if one is less than 1, or if
  /// there are none.
  explicit ReductionBlocks(std::span<const int> sizes);
  /// One leaf on each rank. Throws kInvalidArgument if `ranks` is less than 1.
  static ReductionBlocks one_each(int ranks);

  /// The tree, whose parts are those of all ranks, by rank.
  const ReductionTree& tree() const { return tree_; }
  int num_ranks() const { return static_cast<int>(first_part_.size()) - 1; }
  /// The subtrees whose sums rank `rank` contributes.
  std::span<const LeafRange> parts_of(int rank) const {
    return tree_.parts().subspan(first_part(rank), num_parts(rank));
  }
  /// The same, as ranges of the rank's own leaves, of which the first is 0.
  std::vector<LeafRange> own_parts_of(int rank) const;
  std::size_t num_parts(int rank) const {
    return first_part_[static_cast<std::size_t>(rank) + 1] - first_part(rank);
  }
  /// The index of the rank's first part among the parts of all ranks.
  std::size_t first_part(int rank) const { return first_part_[static_cast<std::size_t>(rank)]; }
  /// The number of parts of the rank that has the most.
  std::size_t most_parts() const;

  /// Equal for equal sizes of all blocks; otherwise different, up to collisions.
  std::uint64_t digest() const;

 private:
  ReductionTree tree_;
  std::vector<std::size_t> first_part_;  // [rank], and the number of all parts
};

}  // namespace brigade::comm
