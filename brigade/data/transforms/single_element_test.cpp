#include "brigade/data/transforms/single_element.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include <string>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

TEST(SingleElement, IsTheOnlyOne) {
  EXPECT_EQ(range(8).skip(7).get_single_element(), 7);
  EXPECT_EQ(range(8).batch(8).get_single_element().size(), 8U);
  const auto drawn = range(100).shuffle(100).take(1);
  EXPECT_EQ(drawn.get_single_element({.seed = 5}), epoch_of(drawn, {.seed = 5}).front());
}

TEST(SingleElement, RefusesNoneAndMore) {
  expect_invalid_argument([] { range(0).get_single_element(); }, "range(0) has no element");
  expect_invalid_argument([] { range(2).get_single_element(); }, "more than one element");
}

TEST(Reduce, GoesThroughTheElementsInOrder) {
  const auto append = [](std::string text, std::int64_t x) { return text + std::to_string(x); };
  EXPECT_EQ(range(4).reduce(std::string("x"), append), "x0123");
  EXPECT_EQ(range(0).reduce(std::string("x"), append), "x");
  EXPECT_EQ(range(101).reduce(0, [](int sum, std::int64_t x) { return sum + static_cast<int>(x); }),
            5050);
}

TEST(Reduce, PropagatesTheErrorOfTheFunction) {
  const auto fail_at_two = [](int sum, std::int64_t x) {
    if (x == 2) throw std::runtime_error("two");
    return sum + 1;
  };
  EXPECT_THROW(range(4).reduce(0, fail_at_two), std::runtime_error);
  EXPECT_THROW(range(4).prefetch(1).reduce(0, fail_at_two), std::runtime_error);
}

TEST(Apply, GivesWhatTheFunctionGives) {
  const auto halve = [](const auto& dataset) { return dataset.shard(2, 1).batch(2); };
  EXPECT_EQ(epoch_of(range(7).apply(halve)), (std::vector<std::vector<std::int64_t>>{{1, 3}, {5}}));
}

}  // namespace
}  // namespace brigade::data
