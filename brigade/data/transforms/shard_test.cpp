#include "brigade/data/transforms/shard.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

IteratorOptions by_hint(std::int64_t count, std::int64_t index) {
  return {.shard = {.by = ShardBy::kHint, .count = count, .index = index}};
}

TEST(Shard, KeepsTheDatasetContract) {
  expect_contract(range(7).shard(3, 0), {0, 3, 6});
  expect_contract(range(7).shard(3, 1), {1, 4});
  expect_contract(range(7).shard(3, 2), {2, 5});
  expect_contract(range(2).shard(3, 2), {});
  expect_contract(range(0).shard(2, 0), {});
  expect_contract(range(4).shard(1, 0), {0, 1, 2, 3});
  expect_contract(range(12).shuffle(5).shard(2, 1).batch(2).prefetch(2),
                  epoch_of(range(12).shuffle(5).shard(2, 1).batch(2)));
}

TEST(Shard, KnowsItsCardinality) {
  EXPECT_EQ(range(5).repeat().shard(2, 1).cardinality(), kInfinite);
  EXPECT_EQ(cardinality_of_shard(kUnknown, 2, 0), kUnknown);
  EXPECT_EQ(cardinality_of_shard(std::numeric_limits<std::int64_t>::max(), 2, 0),
            (std::int64_t{1} << 62));
}

TEST(Shard, RefusesShardsThatDoNotExist) {
  expect_invalid_argument([] { range(3).shard(2, 2); }, "shard: shard 2 of 2 does not exist");
  expect_invalid_argument([] { range(3).shard(0, 0); }, "shard 0 of 0");
}

TEST(Shard, ContinuesAfterAnElementThatFails) {
  const auto dataset = from_indexed<int>(
                           6,
                           [](std::int64_t i) {
                             if (i == 3) throw Error(ErrorCode::kDataLoss, "three is broken");
                             return static_cast<int>(i);
                           },
                           "fragile")
                           .shard(2, 1);
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), 5);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(ShardHint, DoesNothingWithoutSharding) {
  expect_contract(range(5).shard_hint(), {0, 1, 2, 3, 4});
  EXPECT_EQ(epoch_of(range(5).shard_hint(), {.shard = {.count = 2, .index = 1}}),
            (Numbers{0, 1, 2, 3, 4}));
}

TEST(ShardHint, GivesEachShardItsElements) {
  EXPECT_EQ(epoch_of(range(7).shard_hint(), by_hint(3, 1)), (Numbers{1, 4}));
  const auto batches = range(7).shard_hint().batch(2);
  EXPECT_EQ(epoch_of(batches, by_hint(2, 0)), (std::vector<Numbers>{{0, 2}, {4, 6}}));
  EXPECT_EQ(epoch_of(batches, by_hint(2, 1)), (std::vector<Numbers>{{1, 3}, {5}}));
}

// Were the shuffle another in each shard, some elements would come twice and others never.
TEST(ShardHint, StepsBeforeItAreTheSameInAllShards) {
  const auto dataset = range(20).shuffle(20).shard_hint().shuffle(20);
  Numbers seen = epoch_of(dataset, by_hint(2, 0));
  const Numbers other = epoch_of(dataset, by_hint(2, 1));
  seen.insert(seen.end(), other.begin(), other.end());
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, epoch_of(range(20)));
}

TEST(ShardHint, OnlyTheLastOneCounts) {
  const auto dataset = range(4).shard_hint().shard_hint();
  EXPECT_TRUE(dataset.sharding().has_hint);
  EXPECT_EQ(epoch_of(dataset, by_hint(2, 1)), (Numbers{1, 3}));
}

TEST(ShardHint, AShardResumesAtASavedPosition) {
  const auto dataset = range(30).shuffle(4).shard_hint().shuffle(3).batch(2);
  auto iterator = dataset.iterator(by_hint(2, 1));
  for (int taken = 0; taken <= 8; ++taken) {
    auto again = dataset.iterator(by_hint(2, 1));
    again.restore(json_round_trip(iterator.save()));
    auto rest = dataset.iterator(by_hint(2, 1));
    for (int i = 0; i < taken; ++i) rest.next();
    EXPECT_EQ(rest_of(again), rest_of(rest)) << "after " << taken;
    iterator.next();
  }
}

}  // namespace
}  // namespace brigade::data
