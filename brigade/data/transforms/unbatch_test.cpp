#include "brigade/data/transforms/unbatch.h"

#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

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
