#include "brigade/data/core/sharding.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;

Dataset<std::int64_t> two_files_of_ten() {
  return from_files<std::int64_t>({"0", "10"}, [](const io::Path& path) {
    const std::int64_t first = std::stoll(path.string());
    return range(10).map([first](std::int64_t x) { return first + x; });
  });
}

IteratorOptions half(std::int64_t index, ShardBy by = ShardBy::kFiles) {
  return {.shard = {.by = by, .count = 2, .index = index}};
}

TEST(ShardingInfo, IsThatOfTheSource) {
  EXPECT_EQ(range(4).shuffle(2).batch(2).sharding().files, 0);
  const ShardingInfo sharding = two_files_of_ten()
                                    .shuffle(3)
                                    .map([](std::int64_t x) { return x; })
                                    .repeat(2)
                                    .batch(2)
                                    .prefetch(1)
                                    .sharding();
  EXPECT_EQ(sharding.files, 2);
  EXPECT_EQ(sharding.counting_step, "");
  EXPECT_FALSE(sharding.has_hint);
}

TEST(ShardingInfo, NamesTheFirstTransformThatCountsPerShard) {
  const auto files = two_files_of_ten();
  EXPECT_EQ(files.take(3).skip(1).sharding().counting_step, "take(3)");
  EXPECT_EQ(files.skip(1).batch(2).sharding().counting_step, "skip(1)");
  EXPECT_EQ(files.repeat().batch(2).sharding().counting_step, "repeat()");
  EXPECT_EQ(files.batch(2, {.remainder = Remainder::kDrop}).sharding().counting_step,
            "batch(2, without remainder)");
  EXPECT_EQ(files.shard(2, 0).sharding().counting_step, "shard(2, 0)");
  EXPECT_EQ(files.take(3).sharding().files, 2);
}

// Otherwise workers would augment their images in the same way.
TEST(ShardingInfo, ShardsDrawDifferentRandomNumbers) {
  const auto draws = two_files_of_ten().map([](std::int64_t, ElementContext& context) {
    return static_cast<std::int64_t>(context.rng());
  });
  EXPECT_NE(epoch_of(draws, half(0)), epoch_of(draws, half(1)));
  EXPECT_EQ(epoch_of(draws, half(1)), epoch_of(draws, half(1)));
  const auto remainders = two_files_of_ten().shuffle(10).map([](std::int64_t x) { return x % 10; });
  EXPECT_NE(epoch_of(remainders, half(0)), epoch_of(remainders, half(1)));
}

TEST(ShardingInfo, APositionBelongsToItsShard) {
  const auto dataset = two_files_of_ten();
  auto first = dataset.iterator(half(0));
  first.next();
  const io::StateTree state = json_round_trip(first.save());
  for (const IteratorOptions& other : {half(1), IteratorOptions(), half(0, ShardBy::kHint)}) {
    auto iterator = dataset.iterator(other);
    expect_invalid_argument([&] { iterator.restore(state); }, "shard 0 of 2 by files");
  }
  auto again = dataset.iterator(half(0));
  again.restore(state);
  EXPECT_EQ(rest_of(again), rest_of(first));
}

TEST(ShardingInfo, ShardsMustExist) {
  expect_invalid_argument([] { check_shard(2, 2, "x"); }, "x: shard 2 of 2 does not exist");
  expect_invalid_argument([] { check_shard(0, 0, "x"); }, "shard 0 of 0");
  expect_invalid_argument([] { check_shard(2, -1, "x"); }, "shard -1 of 2");
  expect_invalid_argument([] { range(2).iterator({.shard = {.count = 3, .index = 3}}); },
                          "shard 3 of 3");
}

}  // namespace
}  // namespace brigade::data
