#include "brigade/data/sources/counter.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Counter, MatchesTensorFlow) {
  const Table table("stateful");
  EXPECT_EQ(counter().cardinality(), table.cardinality("counter()"));
  expect_contract(counter().take(4), table.elements<std::int64_t>("counter()"));
  expect_contract(counter(10, -3).take(4), table.elements<std::int64_t>("counter(10, -3)"));
}

TEST(Counter, WrapsAroundAfterTheLargestNumber) {
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(epoch_of(counter(largest).take(2)),
            (Numbers{largest, std::numeric_limits<std::int64_t>::min()}));
}

TEST(Range, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(2, 5)", range(2, 5));
  expect_matches_table(table, "range(2, 11, 3)", range(2, 11, 3));
  expect_matches_table(table, "range(2, 12, 3)", range(2, 12, 3));
  expect_matches_table(table, "range(5, -2, -2)", range(5, -2, -2));
  expect_matches_table(table, "range(5, 2)", range(5, 2));
}

TEST(Range, ReachesFromTheSmallestNumberToTheLargest) {
  const std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const auto wide = range(smallest, largest, largest);
  EXPECT_EQ(epoch_of(wide), (Numbers{smallest, -1, largest - 1}));
  EXPECT_EQ(epoch_of(range(largest, smallest, smallest)), (Numbers{largest, -1}));
  expect_invalid_argument([&] { range(smallest, largest); }, "more numbers than can be counted");
}

TEST(Range, RefusesAStepOfNothing) {
  expect_invalid_argument([] { range(1, 5, 0); }, "step is 0");
}

TEST(Random, KeepsTheDatasetContract) {
  const auto numbers = random().take(20);
  expect_contract(numbers, epoch_of(numbers));
  EXPECT_EQ(random().cardinality(), kInfinite);
}

TEST(Random, IsAFunctionOfSeedAndEpoch) {
  const auto numbers = random().take(5);
  EXPECT_NE(epoch_of(numbers), epoch_of(numbers, {.seed = 1}));
  EXPECT_NE(epoch_of(numbers), epoch_of(numbers, {.epoch = 1}));
  const auto fixed = random({.seed = 9}).take(5);
  EXPECT_EQ(epoch_of(fixed), epoch_of(fixed, {.seed = 1}));
  EXPECT_NE(epoch_of(fixed), epoch_of(fixed, {.epoch = 1}));
  const auto same = random({.seed = 9, .rerandomize_each_iteration = false}).take(5);
  EXPECT_EQ(epoch_of(same), epoch_of(same, {.epoch = 1}));
  EXPECT_EQ(epoch_of(same), epoch_of(fixed));
}

TEST(Random, NumbersHave32Bits) {
  std::int64_t all_bits = 0;
  for (const std::int64_t x : epoch_of(random().take(100))) {
    EXPECT_GE(x, 0);
    EXPECT_LT(x, std::int64_t{1} << 32);
    all_bits |= x;
  }
  EXPECT_EQ(all_bits, (std::int64_t{1} << 32) - 1);
}

TEST(Random, DescribesItself) {
  EXPECT_EQ(random().describe(), "random()");
  EXPECT_EQ(random({.seed = 9, .rerandomize_each_iteration = false}).describe(),
            "random(seed 9, in each epoch alike)");
}

}  // namespace
}  // namespace brigade::data
