#include "brigade/data/transforms/rebatch.h"

#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;
constexpr BatchOptions kDropped{.remainder = Remainder::kDrop};

TEST(Rebatch, MatchesTensorFlow) {
  const Table table("windows");
  expect_matches_table(table, "range(10).batch(3).rebatch(4)", range(10).batch(3).rebatch(4));
  expect_matches_table(table, "range(10).batch(3).rebatch(4, drop_remainder)",
                       range(10).batch(3).rebatch(4, kDropped));
  expect_matches_table(table, "range(10).batch(4).rebatch(2)", range(10).batch(4).rebatch(2));
  expect_matches_table(table, "range(12).batch(5).rebatch([2, 1, 1])",
                       range(12).batch(5).rebatch({2, 1, 1}));
  expect_matches_table(table, "range(10).batch(5).rebatch([2, 1], drop_remainder)",
                       range(10).batch(5).rebatch({2, 1}, kDropped));
  EXPECT_EQ(epoch_of(range(9).batch(3).repeat().rebatch(4).take(5)),
            table.elements<Numbers>("range(9).batch(3).repeat().rebatch(4)"));
}

TEST(Rebatch, OfWhatNeverEndsNeverEnds) {
  EXPECT_EQ(range(9).batch(3).repeat().rebatch(4).cardinality(), kInfinite);
}

TEST(Rebatch, PassesOverEmptyBatches) {
  const auto batches = from_elements<Numbers>({{}, {1, 2}, {}, {3}, {4, 5, 6}, {}});
  expect_contract(batches.rebatch(4), {{1, 2, 3, 4}, {5, 6}}, Length::kUnknown);
}

TEST(Rebatch, TakesTuplesApart) {
  const auto pairs = range(7).map([](std::int64_t x) { return std::pair(x, 2 * x); });
  expect_contract(pairs.batch(3).rebatch(2), epoch_of(pairs.batch(2)), Length::kUnknown);
  const auto tuples = range(7).map([](std::int64_t x) { return std::tuple(x, 2 * x); });
  expect_contract(tuples.batch(2).rebatch(3), epoch_of(tuples.batch(3)), Length::kUnknown);
}

TEST(Rebatch, MovesMoveOnlyElements) {
  const auto owned =
      range(5).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); }).batch(2);
  auto iterator = owned.rebatch(3).iterator();
  EXPECT_EQ(*iterator.next()->at(2), 2);
  EXPECT_EQ(*iterator.next()->at(1), 4);
}

TEST(Rebatch, ABatchThatFailsFailsTheOutputBatchThatContinuesInIt) {
  const auto batches = numbers_with_errors(16, 7).batch(2);
  // Broken: 0 1, 6 7 and 14 15.
  EXPECT_EQ(with_errors_as<Numbers>({-1}, batches.rebatch(3)),
            (std::vector<Numbers>{{-1}, {2, 3, 4}, {-1}, {8, 9, 10}, {11, 12, 13}, {-1}}));
}

TEST(Rebatch, RefusesSizesBelowOne) {
  expect_invalid_argument([] { range(3).batch(2).rebatch(0); }, "size is 0; it must be 1 or more");
  expect_invalid_argument([] { range(3).batch(2).rebatch({1, -1}); }, "size is -1");
  expect_invalid_argument([] { range(3).batch(2).rebatch(Numbers{}); }, "list of sizes is empty");
}

TEST(Rebatch, DescribesItself) {
  EXPECT_EQ(range(3).batch(2).rebatch({2, 1}, kDropped).describe(),
            "range(3) | batch(2) | rebatch(2, 1, without remainder)");
}

TEST(Rebatch, WarnsThatEachShardDropsItsRemainder) {
  EXPECT_EQ(range(9).batch(3).rebatch(2).sharding().counting_step, "");
  EXPECT_EQ(range(9).batch(3).rebatch(2, kDropped).sharding().counting_step,
            "rebatch(2, without remainder)");
}

TEST(Unbatch, MatchesTensorFlow) {
  const Table table("windows");
  expect_matches_table(table, "range(10).batch(3).unbatch()", range(10).batch(3).unbatch());
  expect_matches_table(table, "range(10).batch(2).batch(3).unbatch()",
                       range(10).batch(2).batch(3).unbatch());
  const std::string endless = "range(10).batch(3).repeat().unbatch()";
  EXPECT_EQ(range(10).batch(3).repeat().unbatch().cardinality(), table.cardinality(endless));
  EXPECT_EQ(epoch_of(range(10).batch(3).repeat().unbatch().take(12)),
            table.elements<std::int64_t>(endless));
}

TEST(Unbatch, PassesOverEmptyBatches) {
  const auto batches = from_elements<Numbers>({{}, {1, 2}, {}, {}, {3}, {}});
  expect_contract(batches.unbatch(), {1, 2, 3}, Length::kUnknown);
}

TEST(Unbatch, OfManySmallBatchesResumesEverywhere) {
  expect_contract(range(40).batch(1).unbatch(), epoch_of(range(40)), Length::kUnknown);
}

TEST(Unbatch, OfShuffledBatchesFollowsTheirOrder) {
  const auto batches = range(30).shuffle(8).batch(4);
  expect_contract(batches.unbatch(), epoch_of(range(30).shuffle(8)), Length::kUnknown);
}

TEST(Unbatch, ABatchThatFailsIsOneElementThatDoes) {
  const auto elements = numbers_with_errors(8, 5).batch(2).unbatch();
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, elements), (Numbers{-1, 2, 3, -1, 6, 7}));
  auto iterator = elements.node()->iterator({});
  EXPECT_EQ(iterator->skip(2), 2U);
  EXPECT_EQ(iterator->next(), 3);
  EXPECT_EQ(iterator->skip(2), 2U);
  EXPECT_EQ(iterator->next(), 7);
}

TEST(Unbatch, MovesMoveOnlyElements) {
  using Owned = std::unique_ptr<std::int64_t>;
  const auto owned =
      range(5).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); }).batch(2);
  auto iterator = Dataset<Owned>(owned.unbatch()).iterator();
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(**iterator.next(), i);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Unbatch, TuplesAndPairsComeApart) {
  const auto tuples = range(5).map([](std::int64_t x) { return std::tuple(x, 2 * x, x > 2); });
  expect_contract(tuples.batch(2).unbatch(), epoch_of(tuples), Length::kUnknown);
  const auto pairs = range(5).map([](std::int64_t x) { return std::pair(x, 0.5 * double(x)); });
  expect_contract(pairs.batch(3).unbatch(), epoch_of(pairs), Length::kUnknown);
}

TEST(Unbatch, RefusesPartsOfDifferentSizes) {
  const auto uneven = from_elements<std::pair<Numbers, Numbers>>({{{1, 2}, {3}}});
  auto iterator = uneven.unbatch().iterator();
  expect_invalid_argument([&] { iterator.next(); }, "one has 2, another 1");
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Unbatch, RefusesAPositionPastItsBatch) {
  auto longer = range(5).batch(5).unbatch().iterator();
  for (int i = 0; i < 4; ++i) longer.next();
  expect_invalid_argument(
      [&] {
        range(3).batch(5).unbatch().node()->iterator({})->restore(longer.save().at("position"));
      },
      "after element 4 of a batch that now has 3");
}

}  // namespace
}  // namespace brigade::data
