#include "brigade/data/transforms/unique.h"

#include <gtest/gtest.h>

#include "brigade/data/sources/counter.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Unique, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(3).repeat(2).unique()", range(3).repeat(2).unique());
  EXPECT_EQ(range(3).repeat().unique().cardinality(),
            table.cardinality("range(3).repeat().unique()"));
}

TEST(Unique, KeepsTheFirstOfEach) {
  const auto words = from_elements<std::string>({"b", "a", "b", "c", "a", "d", "c"});
  expect_contract(words.unique(), {"b", "a", "c", "d"}, Length::kUnknown);
}

TEST(Unique, WorksForTypesWithAnOrderButNoHash) {
  expect_contract(from_elements<Numbers>({{1}, {2, 1}, {1}, {2}}).unique(), {{1}, {2, 1}, {2}},
                  Length::kUnknown);
}

TEST(Unique, OfShuffledElementsResumesEverywhere) {
  const auto unique = range(40).shuffle(12).map([](std::int64_t x) { return x % 9; }).unique();
  EXPECT_EQ(epoch_of(unique).size(), 9U);
  expect_contract(unique, epoch_of(unique), Length::kUnknown);
}

TEST(Unique, FailedElementsAreNotEqual) {
  const auto unique = numbers_with_errors(9, 4).map([](std::int64_t x) { return x % 3; }).unique();
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, unique), (Numbers{-1, 1, 2, 0, -1, -1}));
  auto iterator = unique.iterator();
  EXPECT_THROW(iterator.next(), Error);
  auto fresh = unique.iterator();
  fresh.restore(iterator.save());
  EXPECT_EQ(fresh.next(), 1);
}

TEST(Unique, RefusesAPositionPastTheEndOfItsInput) {
  const auto longer = range(5).unique();
  const auto shorter = range(4).unique();
  auto iterator = longer.node()->iterator({});
  iterator->skip(5);
  expect_invalid_argument([&] { shorter.node()->iterator({})->restore(iterator->save()); },
                          "element 5 of range(4), which has only 4");
}

TEST(Unique, AnIterationThatFindsNothingCanBeCancelled) {
  const concurrency::CancelToken token;
  const auto ones = counter().map([token](std::int64_t x) {
    if (x == 1000) token.cancel();
    return 1;
  });
  auto iterator = ones.unique().iterator({.cancel = token});
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

TEST(Unique, ReadingAgainCanBeCancelled) {
  const auto numbers = range(1'000'000).unique();
  auto iterator = numbers.node()->iterator({});
  iterator->skip(1000);
  const concurrency::CancelToken token;
  token.cancel();
  auto base = numbers.node()->iterator({.cancel = token});
  EXPECT_EQ(error_of([&] { base->restore(iterator->save()); }).code(), ErrorCode::kCancelled);
}

TEST(Unique, WarnsThatShardsMayHaveTheSameElements) {
  EXPECT_EQ(range(4).unique().sharding().counting_step, "unique");
}

}  // namespace
}  // namespace brigade::data
