#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;

TEST(Basics, GiveTheResultsOfTensorFlow) {
  const Table table("basics");
  expect_matches_table(table, "range(10).batch(3)", range(10).batch(3));
  expect_matches_table(table, "range(10).batch(3, drop_remainder)",
                       range(10).batch(3, {.remainder = Remainder::kDrop}));
  expect_matches_table(table, "range(3).repeat(2).batch(4)", range(3).repeat(2).batch(4));
  expect_matches_table(table, "range(3).batch(2).repeat(2)", range(3).batch(2).repeat(2));
  expect_matches_table(table, "range(10).take(3)", range(10).take(3));
  expect_matches_table(table, "range(10).skip(7)", range(10).skip(7));
  expect_matches_table(table, "range(3).take(7)", range(3).take(7));
  expect_matches_table(table, "range(3).skip(7)", range(3).skip(7));
  expect_matches_table(table, "range(10).shard(3, 1)", range(10).shard(3, 1));
  expect_matches_table(table, "range(10).batch(2).shard(2, 1)", range(10).batch(2).shard(2, 1));
  expect_matches_table(table, "range(3).repeat(0)", range(3).repeat(0));
}

TEST(Basics, InfiniteDatasetsHaveTheCardinalityOfTensorFlow) {
  const Table table("basics");
  EXPECT_EQ(range(3).repeat().cardinality(), table.cardinality("range(3).repeat()"));
  EXPECT_EQ(epoch_of(range(3).repeat().take(7)), table.elements<std::int64_t>("range(3).repeat()"));
}

}  // namespace
}  // namespace brigade::data
