#include "brigade/distribute/input/element_shard.h"

#include <gtest/gtest.h>

namespace brigade::distribute {
namespace {

TEST(ElementShard, ShardsCoverTheRange) {
  for (const std::int64_t size : {0, 1, 63, 64, 1000, 100'003}) {
    for (const int num_shards : {1, 2, 3, 7}) {
      std::int64_t at = 5;
      for (int shard = 0; shard < num_shards; ++shard) {
        const ElementRange range = element_shard({5, 5 + size}, shard, num_shards);
        EXPECT_EQ(range.begin, at);
        at = range.end;
      }
      EXPECT_EQ(at, 5 + size);
    }
  }
}

TEST(ElementShard, BeginsAtWholeCacheLinesAndIsBalanced) {
  EXPECT_EQ(element_shard({0, 1000}, 0, 3), (ElementRange{0, 320}));
  EXPECT_EQ(element_shard({0, 1000}, 1, 3), (ElementRange{320, 640}));
  EXPECT_EQ(element_shard({0, 1000}, 2, 3), (ElementRange{640, 1000}));
  EXPECT_EQ(element_shard({64, 100}, 0, 2), (ElementRange{64, 64}));
}

}  // namespace
}  // namespace brigade::distribute
