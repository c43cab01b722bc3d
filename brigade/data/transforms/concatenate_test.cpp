#include "brigade/data/transforms/concatenate.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/failing_sources.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Concatenate, KeepsTheDatasetContract) {
  expect_contract(range(3).concatenate(range(2)), {0, 1, 2, 0, 1});
  expect_contract(range(0).concatenate(range(2)), {0, 1});
  expect_contract(range(2).concatenate(range(0)), {0, 1});
  expect_contract(range(0).concatenate(range(0)), {});
  expect_contract(range(1).concatenate(range(2)).concatenate(range(3)), {0, 0, 1, 0, 1, 2});
  const auto mixed = range(9).shuffle(4).prefetch(2).concatenate(range(5).shuffle(5)).batch(4);
  expect_contract(mixed, epoch_of(mixed));
}

TEST(Concatenate, ItsPartsShuffleDifferently) {
  const auto order = range(30).shuffle(30);
  const Numbers both = epoch_of(order.concatenate(order));
  EXPECT_EQ(Numbers(both.begin(), both.begin() + 30), epoch_of(order));
  EXPECT_NE(Numbers(both.begin(), both.begin() + 30), Numbers(both.begin() + 30, both.end()));
}

TEST(Concatenate, RefusesWhatCannotBeCounted) {
  const auto many = range(2).repeat(std::numeric_limits<std::int64_t>::max() / 2);
  expect_invalid_argument([&] { many.concatenate(many); }, "more than can be counted");
}

TEST(Concatenate, RefusesABrokenPosition) {
  const auto dataset = range(3).concatenate(range(2));
  io::StateTree state = dataset.iterator().save();
  state["position"]["part"] = 2U;
  expect_invalid_argument([&] { dataset.iterator().restore(state); }, "is broken");
}

TEST(Concatenate, DescribesItself) {
  EXPECT_EQ(range(3).concatenate(range(2).take(1)).batch(2).describe(),
            "range(3) | concatenate(range(2) | take(1)) | batch(2)");
}

TEST(Concatenate, APartThatCannotStartIsOneElementThatFails) {
  const auto dataset = [] { return range(2).concatenate(source_failing_at(2, 0)); };
  auto iterator = dataset().iterator();
  iterator.next();
  iterator.next();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kUnavailable);
  const io::StateTree state = json_round_trip(iterator.save());
  EXPECT_EQ(iterator.next(), std::nullopt);
  auto resumed = dataset().iterator();
  resumed.restore(state);
  EXPECT_EQ(resumed.next(), std::nullopt);
  EXPECT_EQ(dataset().node()->iterator({})->skip(100), 3U);
  EXPECT_EQ(epoch_of(dataset().ignore_errors({.log = ErrorLog::kOff})), (Numbers{0, 1}));
}

}  // namespace
}  // namespace brigade::data
