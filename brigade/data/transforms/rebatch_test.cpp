#include "brigade/data/transforms/rebatch.h"

#include <gtest/gtest.h>

#include <memory>

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

}  // namespace
}  // namespace brigade::data
