#include "brigade/data/transforms/assert_cardinality.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

Dataset<std::int64_t> small_numbers() {
  return range(20).take_while([](std::int64_t x) { return x < 5; });
}

TEST(AssertCardinality, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(10).assert_cardinality(10)", range(10).assert_cardinality(10));
  const std::string endless = "range(3).repeat().assert_cardinality(-1)";
  EXPECT_EQ(range(3).repeat().assert_cardinality(kInfinite).cardinality(),
            table.cardinality(endless));
  EXPECT_EQ(epoch_of(range(3).repeat().assert_cardinality(kInfinite).take(4)),
            table.elements<std::int64_t>(endless));
}

TEST(AssertCardinality, SetsAnUnknownCardinality) {
  expect_contract(small_numbers().assert_cardinality(5), {0, 1, 2, 3, 4});
  expect_contract(range(0).assert_cardinality(0), {});
}

/// The last element fails, in all ways of getting there.
void expect_last_fails(const Dataset<std::int64_t>& dataset, const Numbers& before,
                       const std::string& mentions) {
  Numbers expected = before;
  expected.push_back(-1);
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, dataset), expected);
  auto iterator = dataset.node()->iterator({});
  EXPECT_EQ(iterator->skip(before.size()), before.size());
  const io::StateTree state = iterator->save();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(std::string(error.what()).find(mentions), std::string::npos) << error.what();
  EXPECT_EQ(iterator->next(), std::nullopt);
  const io::StateTree at_end = iterator->save();
  iterator->restore(state);
  EXPECT_THROW(iterator->next(), Error);
  iterator->restore(at_end);
  EXPECT_EQ(iterator->skip(1), 0U);
  auto skipping = dataset.node()->iterator({});
  EXPECT_EQ(skipping->skip(100), expected.size());
  EXPECT_EQ(skipping->next(), std::nullopt);
}

TEST(AssertCardinality, FailsInTheEndIfThereAreFewer) {
  expect_last_fails(small_numbers().assert_cardinality(9), {0, 1, 2, 3, 4},
                    "expected to have 9 elements, but it has only 5");
  expect_last_fails(small_numbers().assert_cardinality(kInfinite), {0, 1, 2, 3, 4},
                    "expected to have elements without end, but it has only 5");
}

TEST(AssertCardinality, FailsInTheEndIfThereAreMore) {
  expect_last_fails(small_numbers().assert_cardinality(3), {0, 1, 2},
                    "expected to have 3 elements, but it has more");
  expect_last_fails(small_numbers().assert_cardinality(0), {}, "0 elements, but it has more");
}

TEST(AssertCardinality, TensorFlowFailsToo) {
  const Table table("stateful");
  for (const char* name : {"range(10).assert_cardinality(9)", "range(10).assert_cardinality(11)",
                           "range(10).assert_cardinality(-1)"}) {
    EXPECT_EQ(table.at(name).at("raises"), "FailedPreconditionError");
  }
}

TEST(AssertCardinality, RefusesOtherNumbers) {
  expect_invalid_argument([] { range(3).assert_cardinality(kUnknown); },
                          "count is -2; it must be 0 or more, or kInfinite");
}

}  // namespace
}  // namespace brigade::data
