#include "brigade/comm/exchange/exchange_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BinomialTree, TheLargestSubtreeComesFirst) {
  EXPECT_THAT(binomial_children(0, 0, 8), ElementsAre(4, 2, 1));
  EXPECT_THAT(binomial_children(4, 0, 8), ElementsAre(6, 5));
  EXPECT_THAT(binomial_children(7, 0, 8), IsEmpty());
  EXPECT_THAT(binomial_children(2, 2, 5), ElementsAre(1, 4, 3));
  EXPECT_THAT(binomial_children(0, 0, 1), IsEmpty());
}

TEST(BinomialTree, EveryRankIsReachedOnceByItsParent) {
  for (int world = 1; world <= 17; ++world) {
    for (int root = 0; root < world; ++root) {
      std::vector<int> reached(static_cast<std::size_t>(world));
      for (int rank = 0; rank < world; ++rank) {
        for (const int child : binomial_children(rank, root, world)) {
          ++reached[static_cast<std::size_t>(child)];
          EXPECT_EQ(binomial_parent(child, root, world), rank);
        }
      }
      for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(reached[static_cast<std::size_t>(rank)], rank == root ? 0 : 1);
    }
  }
}

}  // namespace
}  // namespace brigade::comm
