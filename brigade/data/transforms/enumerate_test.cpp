#include "brigade/data/transforms/enumerate.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbered = std::tuple<std::int64_t, std::int64_t>;

TEST(Enumerate, KeepsTheDatasetContract) {
  expect_contract(range(6).skip(3).enumerate(), {{0, 3}, {1, 4}, {2, 5}});
  expect_contract(range(2).enumerate(-1), {{-1, 0}, {0, 1}});
  expect_contract(range(0).enumerate(), {});
  const auto shuffled = range(9).shuffle(9).enumerate(5).prefetch(2);
  expect_contract(shuffled, epoch_of(shuffled));
}

TEST(Enumerate, ElementsThatFailAreCounted) {
  const auto fragile = range(3).map([](std::int64_t x) {
    if (x == 1) throw Error(ErrorCode::kDataLoss, "broken");
    return x;
  });
  auto iterator = fragile.enumerate().iterator();
  EXPECT_EQ(iterator.next(), Numbered(0, 0));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), Numbered(2, 2));
}

TEST(Enumerate, WrapsAroundAfterTheLargestNumber) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(epoch_of(range(2).enumerate(kMax)),
            (std::vector<Numbered>{{kMax, 0}, {std::numeric_limits<std::int64_t>::min(), 1}}));
}

TEST(Enumerate, WarnsThatShardsCountSeparately) {
  EXPECT_EQ(range(2).enumerate().sharding().counting_step, "enumerate(0)");
}

}  // namespace
}  // namespace brigade::data
