#include "brigade/data/transforms/batch.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Batch, KeepsTheDatasetContract) {
  expect_contract(range(7).batch(3), {{0, 1, 2}, {3, 4, 5}, {6}});
  expect_contract(range(6).batch(3), {{0, 1, 2}, {3, 4, 5}});
  expect_contract(range(2).batch(3), {{0, 1}});
  expect_contract(range(0).batch(3), {});
}

TEST(Batch, DropsTheRemainderIfAsked) {
  const BatchOptions drop{.remainder = Remainder::kDrop};
  expect_contract(range(7).batch(3, drop), {{0, 1, 2}, {3, 4, 5}});
  expect_contract(range(2).batch(3, drop), {});
}

TEST(Batch, OfBatchesNests) {
  expect_contract(range(5).batch(2).batch(2), {{{0, 1}, {2, 3}}, {{4}}});
}

TEST(Batch, RefusesSizesBelowOne) {
  expect_invalid_argument([] { range(3).batch(0); }, "size is 0; it must be 1 or more");
  expect_invalid_argument([] { range(3).batch(-1); }, "size is -1");
}

TEST(Batch, AHugeSizeTakesWhatThereIs) {
  EXPECT_EQ(epoch_of(range(3).batch(std::int64_t{1} << 62)), (std::vector<Numbers>{{0, 1, 2}}));
}

TEST(Batch, WithAFailedElementFailsAsAWhole) {
  const auto fragile = range(7).map([](std::int64_t x) {
    if (x == 3) throw Error(ErrorCode::kDataLoss, "three is broken");
    return x;
  });
  auto iterator = fragile.batch(3).iterator();
  EXPECT_EQ(iterator.next(), (Numbers{0, 1, 2}));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), (Numbers{6}));
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Batch, KnowsItsCardinality) {
  EXPECT_EQ(range(3).repeat().batch(2).cardinality(), kInfinite);
  EXPECT_EQ(cardinality_of_batch(kUnknown, 2, true), kUnknown);
}

TEST(Batch, AnErrorInADroppedRemainderIsDroppedWithIt) {
  const auto failing = range(10).map([](std::int64_t x) {
    if (x == 8) throw Error(ErrorCode::kDataLoss, "eight");
    return x;
  });
  const auto dropping = failing.batch(4, {.remainder = Remainder::kDrop});
  EXPECT_EQ(epoch_of(dropping), (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(dropping.node()->iterator({})->skip(100), 2U);
  auto keeping = failing.batch(4).iterator();
  keeping.next();
  keeping.next();
  EXPECT_EQ(error_of([&] { keeping.next(); }).code(), ErrorCode::kDataLoss);
  const auto batches = failing.take(9).batch(3, {.remainder = Remainder::kDrop});
  const auto full = batches.node()->iterator({});
  full->skip(2);
  EXPECT_EQ(error_of([&] { full->next(); }).code(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace brigade::data
