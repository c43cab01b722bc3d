#include "brigade/data/interleave/inner_options.h"

#include <gtest/gtest.h>

#include <set>

namespace brigade::data::internal {
namespace {

TEST(InnerOptions, TheFirstInputKeepsTheSeed) {
  EXPECT_EQ(options_of_input({.seed = 7, .epoch = 2}, 0).seed, 7U);
}

TEST(InnerOptions, EveryOtherInputHasADifferentSeedAndTheSameEpoch) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t input = 0; input < 5; ++input) {
    const IteratorOptions options = options_of_input({.seed = 7, .epoch = 2}, input);
    EXPECT_EQ(options.epoch, 2U);
    seeds.insert(options.seed);
  }
  EXPECT_EQ(seeds.size(), 5U);
}

TEST(InnerOptions, AnInnerDatasetIsNotShardedAndHasADifferentSeedInEachShard) {
  std::set<std::uint64_t> seeds;
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    for (std::uint64_t index = 0; index < 4; ++index) {
      const IteratorOptions options =
          options_of_inner({.seed = 7, .epoch = 2, .shard = {.count = 3, .index = shard}}, index);
      EXPECT_EQ(options.shard, Shard());
      EXPECT_EQ(options.epoch, 2U);
      seeds.insert(options.seed);
    }
  }
  EXPECT_EQ(seeds.size(), 12U);
}

}  // namespace
}  // namespace brigade::data::internal
