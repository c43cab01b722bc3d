#include "brigade/data/core/inputs.h"

#include <gtest/gtest.h>

#include <set>

#include "brigade/data/core/cardinality.h"

namespace brigade::data::internal {
namespace {

const ShardingInfo kFiles{.files = 8, .file_list_hash = 5, .has_hint = true};
const ShardingInfo kFewFiles{.files = 3, .file_list_hash = 6, .counting_step = "take(1)"};

TEST(Inputs, JoinedInputsAreShardedByWhatAllSupport) {
  const ShardingInfo both = sharding_of_joined({kFiles, kFewFiles});
  EXPECT_EQ(both.files, 3);
  EXPECT_NE(both.file_list_hash, sharding_of_joined({kFewFiles, kFiles}).file_list_hash);
  EXPECT_FALSE(both.has_hint);
  EXPECT_EQ(both.counting_step, "take(1)");
  EXPECT_TRUE(sharding_of_joined({kFiles, kFiles}).has_hint);
  EXPECT_EQ(sharding_of_joined({kFiles, ShardingInfo()}).files, 0);
  EXPECT_EQ(sharding_of_joined({kFiles, ShardingInfo()}).file_list_hash, 0U);
}

TEST(Inputs, AlignedInputsAreNotShardedByFiles) {
  EXPECT_EQ(sharding_of_aligned({kFiles, kFiles}).files, 0);
  EXPECT_TRUE(sharding_of_aligned({kFiles, kFiles}).has_hint);
}

TEST(Inputs, AShardThatNotAllSupportIsIgnored) {
  const Shard by_files{.by = ShardBy::kFiles, .count = 4, .index = 1};
  const Shard by_hint{.by = ShardBy::kHint, .count = 4, .index = 1};
  const auto given = [](const Shard& shard, const ShardingInfo& sharding) {
    return options_of_joined({.shard = shard}, sharding, 1).shard;
  };
  EXPECT_EQ(given(by_files, kFewFiles), by_files);
  EXPECT_EQ(given(by_hint, kFewFiles), Shard());
  EXPECT_EQ(given(by_hint, kFiles), by_hint);
  EXPECT_EQ(given(by_files, ShardingInfo{.has_hint = true}), Shard());
}

TEST(Inputs, EachHasItsOwnSeed) {
  EXPECT_EQ(options_of_joined({.seed = 3}, {}, 0).seed, 3U);
  EXPECT_NE(options_of_joined({.seed = 3}, {}, 1).seed, options_of_joined({.seed = 3}, {}, 2).seed);
}

TEST(Inputs, AZipIsAsLongAsItsShortestInput) {
  EXPECT_EQ(cardinality_of_zip({3, kInfinite, 2}), 2);
  EXPECT_EQ(cardinality_of_zip({kInfinite, kInfinite}), kInfinite);
  EXPECT_EQ(cardinality_of_zip({0, kUnknown}), kUnknown);
}

TEST(Inputs, OneRelaxedInputRelaxesTheOrder) {
  EXPECT_EQ(order_of_inputs({Order::kInOrder, Order::kInOrder}), Order::kInOrder);
  EXPECT_EQ(order_of_inputs({Order::kInOrder, Order::kRelaxed}), Order::kRelaxed);
}

TEST(Inputs, TheirStepOmitsTheLengthsOfInputSteps) {
  const PipelineDescription one{{"range(3)"}, {"batch(2)", "batch"}};
  const PipelineDescription other{{"range(4)"}};
  const PipelineStep step = step_of_inputs("mix", {one, other}, {"0.5 of ", "1 of "});
  EXPECT_EQ(step.text, "mix(0.5 of range(3) | batch(2), 1 of range(4))");
  EXPECT_EQ(step.fixed, "mix(0.5 of range(3) | batch, 1 of range(4))");
}

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
