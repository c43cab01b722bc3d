#include "brigade/data/transforms/zip.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Pair = std::tuple<std::int64_t, std::int64_t>;
using Numbers = std::vector<std::int64_t>;

TEST(Zip, KeepsTheDatasetContract) {
  expect_contract(zip(range(3), range(5)), {{0, 0}, {1, 1}, {2, 2}});
  expect_contract(zip(range(5), range(3)), {{0, 0}, {1, 1}, {2, 2}});
  expect_contract(zip(range(0), range(3)), {});
  const auto text = [](std::int64_t x) { return std::string(static_cast<std::size_t>(x), 'x'); };
  using Row = std::tuple<std::int64_t, std::string, Numbers>;
  expect_contract(zip(range(4), range(4).map(text), range(5).batch(2)),
                  std::vector<Row>{{0, "", {0, 1}}, {1, "x", {2, 3}}, {2, "xx", {4}}});
  const auto ahead = zip(range(9).shuffle(9).prefetch(2),
                         range(20).map([](auto x) { return -x; }, {.parallelism = 2}));
  expect_contract(ahead, epoch_of(ahead));
}

TEST(Zip, BatchesAreTuplesOfBatches) {
  using Batch = std::tuple<Numbers, Numbers>;
  const auto batched = zip(range(3), range(4).skip(1)).batch(2);
  expect_contract(batched, std::vector<Batch>{{{0, 1}, {1, 2}}, {{2}, {3}}});
  const Batch batch{{1, 2, 3}, {4, 5, 6}};
  EXPECT_EQ(Structure<Pair>::size(batch), 3);
  EXPECT_EQ(Structure<Pair>::slice(batch, 1, 3), (Batch{{2, 3}, {5, 6}}));
  EXPECT_EQ(Structure<Pair>::slice(batch, 2, 2), (Batch{{}, {}}));
}

TEST(Structure, BatchesOfPairsArePairsOfBatches) {
  using Half = std::pair<std::int64_t, std::string>;
  const auto batch = Structure<Half>::stack({{1, "a"}, {2, "b"}, {3, "c"}});
  EXPECT_EQ(batch, (std::pair<Numbers, std::vector<std::string>>{{1, 2, 3}, {"a", "b", "c"}}));
  EXPECT_EQ(Structure<Half>::size(batch), 3);
  EXPECT_EQ(Structure<Half>::slice(batch, 1, 2).second, (std::vector<std::string>{"b"}));
}

TEST(Zip, AcceptsMoveOnlyElements) {
  const auto boxes = range(3).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); });
  std::int64_t sum = 0;
  for (auto& [number, box] : zip(range(3), boxes)) sum += number * *box;
  EXPECT_EQ(sum, 5);
}

TEST(Zip, AnElementThatFailsFailsItsRowOnly) {
  const auto fragile = [](std::int64_t bad) {
    return range(4).map([bad](std::int64_t x) {
      if (x == bad) throw Error(ErrorCode::kDataLoss, "broken");
      return x;
    });
  };
  const auto dataset = zip(fragile(1), range(3), fragile(2));
  auto iterator = dataset.iterator();
  EXPECT_EQ(std::get<2>(iterator.next().value()), 0);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(error_of([&] { resumed.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(resumed.next(), std::nullopt);
  EXPECT_EQ(dataset.node()->iterator({})->skip(9), 3U);
}

TEST(Zip, AFailureAfterTheShortestInputIsNoRow) {
  const auto broken = range(2).map([](std::int64_t x) {
    if (x == 1) throw Error(ErrorCode::kDataLoss, "broken");
    return x;
  });
  auto iterator = zip(broken, range(1)).iterator();
  EXPECT_EQ(iterator.next(), Pair(0, 0));
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Zip, ItsInputsShuffleDifferently) {
  const auto order = range(30).shuffle(30);
  Numbers first;
  Numbers second;
  for (auto& [a, b] : zip(order, order)) {
    first.push_back(a);
    second.push_back(b);
  }
  EXPECT_EQ(first, epoch_of(order));
  EXPECT_NE(first, second);
}

TEST(Zip, RefusesStatesOfFewerInputs) {
  io::StateTree state = zip(range(3), range(3)).iterator().save();
  state["recipe"] = zip(range(3), range(3), range(3)).iterator().save().at("recipe");
  expect_invalid_argument([&] { zip(range(3), range(3), range(3)).iterator().restore(state); },
                          "saved of 2 inputs");
}

TEST(Zip, IsShardedByHintWhereAllInputsHaveOne) {
  const auto hinted = range(6).shard_hint();
  EXPECT_TRUE(zip(hinted, hinted).sharding().has_hint);
  EXPECT_FALSE(zip(hinted, range(6)).sharding().has_hint);
  const Shard second{.by = ShardBy::kHint, .count = 2, .index = 1};
  EXPECT_EQ(epoch_of(zip(hinted, hinted), {.shard = second}),
            (std::vector<Pair>{{1, 1}, {3, 3}, {5, 5}}));
  EXPECT_EQ(epoch_of(zip(hinted, range(6)), {.shard = second}).size(), 6U);  // rows still match
}

TEST(Zip, DescribesItself) {
  EXPECT_EQ(zip(range(3), range(4).take(2)).batch(2).describe(),
            "zip(range(3), range(4) | take(2)) | batch(2)");
}

}  // namespace
}  // namespace brigade::data
