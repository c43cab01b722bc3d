#include "brigade/comm/reduction_blocks.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/base/error.h"

namespace brigade::comm {
namespace {

using Parts = std::vector<LeafRange>;

ReductionBlocks blocks_of(const std::vector<int>& sizes) {
  return ReductionBlocks(sizes);
}

Parts parts_of(const ReductionBlocks& blocks, int rank) {
  const auto parts = blocks.parts_of(rank);
  return {parts.begin(), parts.end()};
}

TEST(ReductionBlocks, AnUnalignedBlockHasSeveralParts) {
  const ReductionBlocks blocks = blocks_of({3, 3});
  EXPECT_EQ(parts_of(blocks, 0), (Parts{{0, 2}, {2, 3}}));
  EXPECT_EQ(parts_of(blocks, 1), (Parts{{3, 4}, {4, 6}}));
  EXPECT_EQ(blocks.own_parts_of(1), (Parts{{0, 1}, {1, 3}}));
  EXPECT_EQ(blocks.tree().leaves(), 6);
  EXPECT_EQ(blocks.first_part(1), 2u);
  EXPECT_EQ(blocks.most_parts(), 2u);
}

TEST(ReductionBlocks, AlignedBlocksHaveOnePartEach) {
  for (const auto& sizes : std::vector<std::vector<int>>{
           {1}, {5}, {1, 1, 1}, {2, 2}, {4, 4, 4}, {2, 1}, {4, 3}, {4, 1, 1}, {8, 4, 2, 1}})
    EXPECT_EQ(blocks_of(sizes).most_parts(), 1u);
  EXPECT_EQ(blocks_of({3, 1}).most_parts(), 2u);
  EXPECT_EQ(blocks_of({1, 3}).most_parts(), 2u);
  EXPECT_EQ(blocks_of({1, 3}).num_parts(0), 1u);
}

TEST(ReductionBlocks, DigestsDifferIfBlocksDo) {
  EXPECT_EQ(blocks_of({3, 1}).digest(), blocks_of({3, 1}).digest());
  EXPECT_EQ(blocks_of({1, 1, 1}).digest(), ReductionBlocks::one_each(3).digest());
  EXPECT_NE(blocks_of({3, 1}).digest(), blocks_of({1, 3}).digest());
  EXPECT_NE(blocks_of({2, 2}).digest(), blocks_of({4, 4}).digest());
}

TEST(ReductionBlocks, RefusesEmptyBlocks) {
  EXPECT_THROW(blocks_of({}), Error);
  EXPECT_THROW(blocks_of({2, 0}), Error);
  EXPECT_THROW(ReductionBlocks::one_each(0), Error);
}

}  // namespace
}  // namespace brigade::comm
