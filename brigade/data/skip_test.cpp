#include "brigade/data/skip.h"

#include <gtest/gtest.h>

#include "brigade/data/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the battery

TEST(Skip, PassesTheBattery) {
  expect_contract(range(6).skip(4), {4, 5});
  expect_contract(range(3).skip(5), {});
  expect_contract(range(3).skip(0), {0, 1, 2});
  expect_contract(range(9).skip(2).take(4).skip(1), {3, 4, 5});
}

TEST(Skip, RefusesNegativeCounts) {
  expect_invalid_argument([] { range(3).skip(-2); }, "count is -2; it must be 0 or more");
}

TEST(Skip, KnowsItsCardinality) {
  EXPECT_EQ(cardinality_of_skip(kInfinite, 3), kInfinite);
  EXPECT_EQ(cardinality_of_skip(kUnknown, 3), kUnknown);
}

TEST(Skip, DoesNotRunTheMapItPassesOver) {
  const auto dataset = range(5).map([](std::int64_t x) {
    if (x < 3) throw Error(ErrorCode::kInternal, "was run");
    return x;
  });
  EXPECT_EQ(epoch_of(dataset.skip(3)), (std::vector<std::int64_t>{3, 4}));
}

}  // namespace
}  // namespace brigade::data
