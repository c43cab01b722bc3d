#include "brigade/data/transforms/take_while.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
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
