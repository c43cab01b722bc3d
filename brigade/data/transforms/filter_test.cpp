#include "brigade/data/transforms/filter.h"

#include <gtest/gtest.h>

#include <memory>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

TEST(Filter, KeepsTheDatasetContract) {
  expect_contract(range(11).filter(is_even), {0, 2, 4, 6, 8, 10}, Length::kUnknown);
  expect_contract(range(0).filter(is_even), {}, Length::kUnknown);
  expect_contract(range(3).filter([](std::int64_t) { return false; }), {}, Length::kUnknown);
  const auto shuffled = range(30).shuffle(10).filter(is_even).repeat(2).batch(4).prefetch(2);
  expect_contract(shuffled, epoch_of(shuffled), Length::kUnknown);
}

TEST(Filter, AcceptsMoveOnlyElements) {
  const auto boxed = range(4).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); });
  auto iterator = boxed.filter([](const auto& box) { return *box > 1; }).iterator();
  EXPECT_EQ(**iterator.next(), 2);
  EXPECT_EQ(**iterator.next(), 3);
  EXPECT_FALSE(iterator.next().has_value());
}

TEST(Filter, ErrorsOfThePredicateCountAsElementsAndNameTheElement) {
  const auto filtered = range(6).filter([](std::int64_t x) {
    if (x == 2) throw Error(ErrorCode::kDataLoss, "two is broken");
    return x != 1;
  });
  auto iterator = filtered.iterator({.epoch = 3});
  EXPECT_EQ(iterator.next(), 0);
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_STREQ(error.what(), "range(6) | filter, element 2 of epoch 3: two is broken");
  auto resumed = filtered.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(iterator.next(), 3);
  EXPECT_EQ(resumed.next(), 3);
  EXPECT_EQ(filtered.node()->iterator({})->skip(100), 5U);  // the failed one counts
}

TEST(Filter, ErrorsNameTheElementAfterARestoreToo) {
  const auto filtered = range(6).filter([](std::int64_t x) {
    if (x == 4) throw Error(ErrorCode::kDataLoss, "four is broken");
    return true;
  });
  auto iterator = filtered.iterator();
  for (int i = 0; i < 3; ++i) iterator.next();
  auto resumed = filtered.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(resumed.next(), 3);
  EXPECT_STREQ(error_of([&] { resumed.next(); }).what(),
               "range(6) | filter, element 4 of epoch 0: four is broken");
}

TEST(Filter, ErrorsOfTheInputStayAsTheyAre) {
  const auto broken = range(2).map(
      [](std::int64_t) -> std::int64_t { throw Error(ErrorCode::kDataLoss, "broken"); });
  auto iterator = broken.filter(is_even).iterator();
  EXPECT_STREQ(error_of([&] { iterator.next(); }).what(),
               "range(2) | map, element 0 of epoch 0: broken");
}

using Numbers = std::vector<std::int64_t>;

bool is_not_four(std::int64_t x) {
  return x != 4;
}

TEST(TakeWhile, MatchesTensorFlow) {
  const Table table("stateful");
  expect_matches_table(table, "range(10).take_while(x != 4)", range(10).take_while(is_not_four));
  expect_matches_table(table, "range(3).take_while(x != 4)", range(3).take_while(is_not_four));
  const std::string endless = "range(3).repeat().take_while(x != 4)";
  EXPECT_EQ(range(3).repeat().take_while(is_not_four).cardinality(), table.cardinality(endless));
  EXPECT_EQ(epoch_of(range(3).repeat().take_while(is_not_four).take(5)),
            table.elements<std::int64_t>(endless));
}

TEST(TakeWhile, EndsWhatNeverEnds) {
  expect_contract(range(9).repeat().take_while(is_not_four), {0, 1, 2, 3}, Length::kUnknown);
  expect_contract(range(9).take_while([](std::int64_t) { return false; }), {}, Length::kUnknown);
}

TEST(TakeWhile, ContinuesAfterAnElementThatFails) {
  const auto taken = numbers_with_errors(20, 3).take_while([](std::int64_t x) {
    if (x == 5) throw Error(ErrorCode::kDataLoss, "nobody knows about five");
    return x < 8;
  });
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, taken), (Numbers{-1, 1, 2, -1, 4, -1, -1, 7}));
  auto iterator = taken.node()->iterator({});
  EXPECT_EQ(iterator->skip(5), 5U);
  const std::string message = error_of([&] { iterator->next(); }).what();
  EXPECT_NE(message.find("| take_while, element 5 of epoch 0: nobody"), std::string::npos)
      << message;
}

TEST(TakeWhile, WarnsThatEachShardEndsIndependently) {
  EXPECT_EQ(range(4).take_while(is_not_four).sharding().counting_step, "take_while");
}

}  // namespace
}  // namespace brigade::data
