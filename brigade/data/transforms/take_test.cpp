#include "brigade/data/transforms/take.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

TEST(Take, KeepsTheDatasetContract) {
  expect_contract(range(6).take(4), {0, 1, 2, 3});
  expect_contract(range(3).take(5), {0, 1, 2});
  expect_contract(range(3).take(0), {});
}

TEST(Take, EndsAnEndlessInput) {
  const auto dataset = range(2).repeat().take(5);
  expect_contract(dataset, {0, 1, 0, 1, 0});
}

TEST(Take, OfMinusOneIsAll) {
  expect_contract(range(3).take(-1), {0, 1, 2});
  EXPECT_EQ(range(3).repeat().take(-1).cardinality(), kInfinite);
}

TEST(Take, RefusesOtherNegativeCounts) {
  expect_invalid_argument([] { range(3).take(-2); }, "count is -2; it must be 0 or more, or -1");
}

TEST(Take, KnowsItsCardinality) {
  EXPECT_EQ(cardinality_of_take(kUnknown, 3), kUnknown);
  EXPECT_EQ(cardinality_of_take(kUnknown, 0), 0);
  EXPECT_EQ(cardinality_of_take(kInfinite, 3), 3);
}

}  // namespace
}  // namespace brigade::data
