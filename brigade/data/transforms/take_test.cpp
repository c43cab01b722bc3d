#include "brigade/data/transforms/take.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/from_generator.h"
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

TEST(Skip, KeepsTheDatasetContract) {
  expect_contract(range(6).skip(4), {4, 5});
  expect_contract(range(3).skip(5), {});
  expect_contract(range(3).skip(0), {0, 1, 2});
  expect_contract(range(9).skip(2).take(4).skip(1), {3, 4, 5});
}

TEST(Skip, OfMinusOneLeavesNothing) {
  expect_contract(range(3).skip(-1), {});
  EXPECT_EQ(range(3).repeat().skip(-1).cardinality(), 0);
}

TEST(Skip, RefusesOtherNegativeCounts) {
  expect_invalid_argument([] { range(3).skip(-2); }, "count is -2; it must be 0 or more, or -1");
}

TEST(Skip, KnowsItsCardinality) {
  EXPECT_EQ(cardinality_of_skip(kInfinite, 3), kInfinite);
  EXPECT_EQ(cardinality_of_skip(kUnknown, 3), kUnknown);
}

TEST(Skip, DoesNotRunTheMapForSkippedElements) {
  const auto dataset = range(5).map([](std::int64_t x) {
    if (x < 3) throw Error(ErrorCode::kInternal, "was run");
    return x;
  });
  EXPECT_EQ(epoch_of(dataset.skip(3)), (std::vector<std::int64_t>{3, 4}));
}

TEST(Skip, OverAnInputWithoutEndCanBeCancelled) {
  const concurrency::CancelToken token;
  const auto endless = from_generator<std::int64_t>([token] {
    return [token, x = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
      if (x == 100'000) token.cancel();
      return x++;
    };
  });
  auto iterator = endless.skip(INT64_MAX).iterator({.cancel = token});
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace brigade::data
