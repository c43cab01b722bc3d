#include "brigade/data/transforms/repeat.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/failing_sources.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Repeat, KeepsTheDatasetContract) {
  expect_contract(range(3).repeat(2), {0, 1, 2, 0, 1, 2});
  expect_contract(range(3).repeat(1), {0, 1, 2});
  expect_contract(range(3).repeat(0), {});
  expect_contract(range(2).repeat(2).repeat(2), {0, 1, 0, 1, 0, 1, 0, 1});
}

TEST(Repeat, ForeverHasNoEnd) {
  const auto dataset = range(2).repeat();
  EXPECT_EQ(dataset.cardinality(), kInfinite);
  auto iterator = dataset.iterator();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(iterator.next(), i % 2);
}

TEST(Repeat, OfAnEmptyInputEndsImmediately) {
  for (const std::int64_t count : {kForever, std::numeric_limits<std::int64_t>::max()}) {
    const auto dataset = range(0).repeat(count);
    EXPECT_EQ(dataset.cardinality(), 0);
    auto iterator = dataset.iterator();
    EXPECT_EQ(iterator.next(), std::nullopt);
    EXPECT_EQ(iterator.next(), std::nullopt);
    auto resumed = dataset.iterator();
    resumed.restore(iterator.save());
    EXPECT_EQ(resumed.next(), std::nullopt);
  }
}

TEST(Repeat, EachPassIsAnEpochOfItsInput) {
  const auto once = range(10).shuffle(10);
  const Numbers twice = epoch_of(once.repeat(2));
  const Numbers first(twice.begin(), twice.begin() + 10);
  const Numbers second(twice.begin() + 10, twice.end());
  EXPECT_EQ(first, epoch_of(once, {.epoch = 0}));
  EXPECT_EQ(second, epoch_of(once, {.epoch = 1}));
  EXPECT_NE(first, second);
  const Numbers next_epoch = epoch_of(once.repeat(2), {.epoch = 1});
  EXPECT_EQ(Numbers(next_epoch.begin(), next_epoch.begin() + 10), epoch_of(once, {.epoch = 2}));
}

TEST(Repeat, EpochsOfAnEndlessRepeatDiffer) {
  const auto dataset = range(10).shuffle(10).repeat().take(10);
  EXPECT_NE(epoch_of(dataset, {.epoch = 0}), epoch_of(dataset, {.epoch = 1}));
}

TEST(Repeat, RefusesBadCounts) {
  expect_invalid_argument([] { range(3).repeat(-2); }, "count is -2");
  expect_invalid_argument([] { range(3).repeat(std::numeric_limits<std::int64_t>::max()); },
                          "more than can be counted");
}

TEST(Repeat, KnowsItsCardinality) {
  EXPECT_EQ(cardinality_of_repeat(kInfinite, 3), kInfinite);
  EXPECT_EQ(cardinality_of_repeat(kUnknown, 3), kUnknown);
  EXPECT_EQ(cardinality_of_repeat(kUnknown, 0), 0);
}

TEST(Repeat, OfFailingElementsIsNotEmpty) {
  const auto dataset = range(1)
                           .map([](std::int64_t x) {
                             if (x == 0) throw Error(ErrorCode::kDataLoss, "broken");
                             return x;
                           })
                           .repeat(2);
  auto iterator = dataset.iterator();
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  }
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Repeat, APassThatCannotStartIsOneElementThatFails) {
  const auto dataset = [] { return source_failing_at(2, 1).repeat(3); };
  auto iterator = dataset().iterator();
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kUnavailable);
  const io::StateTree state = json_round_trip(iterator.save());
  EXPECT_EQ(rest_of(iterator), (Numbers{0, 1}));
  auto resumed = source_failing_at(2, -1).repeat(3).iterator();
  resumed.restore(state);
  EXPECT_EQ(rest_of(resumed), (Numbers{0, 1})) << "the pass that failed is passed";
  EXPECT_EQ(dataset().node()->iterator({})->skip(100), 5U);
}

TEST(Repeat, StartsNoPassAfterTheLast) {
  auto iterator = source_failing_at(2, 2).repeat(2).iterator();
  EXPECT_EQ(rest_of(iterator), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Repeat, GoesBackFromAPassWithoutElements) {
  const auto epochs = [](std::uint64_t epoch) { return epoch == 1 ? 0 : 2; };
  const auto dataset = from_generator<std::int64_t>([=](const IteratorOptions& options) {
                         const std::int64_t size = epochs(options.epoch);
                         return [size, x = std::int64_t{0}]() mutable {
                           return x < size ? std::optional(x++) : std::nullopt;
                         };
                       }).repeat(3);
  const auto iterator = dataset.node()->iterator({});
  iterator->next();
  const io::StateTree state = iterator->save();
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(iterator->next(), 1);
    EXPECT_EQ(iterator->next(), std::nullopt) << "pass 1 has no elements";
    iterator->restore(state);
  }
}

}  // namespace
}  // namespace brigade::data
