#include "brigade/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;

/// The usual order in training jobs: shuffle, augment on threads, repeat, batch, prefetch.
Dataset<Numbers> training_pipeline(std::int64_t parallelism, std::int64_t ahead) {
  const auto augment = [](std::int64_t x, ElementContext& context) {
    return x * 1000 + static_cast<std::int64_t>(context.rng.uniform_below(1000));
  };
  return range(23)
      .shuffle(7)
      .map(augment, {.parallelism = parallelism})
      .repeat(3)
      .batch(5)
      .prefetch(ahead);
}

TEST(Dataset, TheWholePipelineKeepsTheContract) {
  const auto plain = epoch_of(training_pipeline(1, 1));
  for (const std::int64_t parallelism : {1, 3}) {
    for (const std::int64_t ahead : {1, 4}) {
      SCOPED_TRACE(::testing::Message() << parallelism << " threads, " << ahead << " ahead");
      expect_contract(training_pipeline(parallelism, ahead), plain);
    }
  }
}

TEST(Dataset, OtherOrdersOfTransformsKeepTheContract) {
  const auto twice = [](std::int64_t x) { return 2 * x; };
  const auto a = range(17).repeat(2).shuffle(5).map(twice, {.parallelism = 2}).take(30).skip(3);
  expect_contract(a, epoch_of(a));
  const auto b = range(17).prefetch(2).map(twice, {.parallelism = 2}).shuffle(4).prefetch(3);
  expect_contract(b, epoch_of(b));
  const auto c = range(9).shuffle(9).take(5).repeat().batch(2).skip(1).take(6);
  expect_contract(c, epoch_of(c));
  const auto d = range(12).batch(2).shuffle(3).repeat(2).map(
      [](Numbers batch) { return batch.front(); }, {.parallelism = 2});
  expect_contract(d, epoch_of(d));
}

TEST(Dataset, NoElementIsLostOrRepeated) {
  Numbers seen;
  for (const auto& batch : range(100).shuffle(30).repeat(2).batch(7).prefetch(kAutotune)) {
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  std::sort(seen.begin(), seen.end());
  Numbers expected;
  for (std::int64_t x = 0; x < 100; ++x) expected.insert(expected.end(), 2, x);
  EXPECT_EQ(seen, expected);
}

TEST(Dataset, TransformsDoNotChangeIt) {
  const auto source = range(4);
  const auto batched = source.batch(2);
  EXPECT_EQ(epoch_of(source), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(epoch_of(batched), (std::vector<Numbers>{{0, 1}, {2, 3}}));
}

TEST(Dataset, DescribesItsPipeline) {
  const auto dataset = range(10).shuffle(4).repeat().batch(2).prefetch(3).take(1).skip(0);
  EXPECT_EQ(dataset.describe(),
            "range(10) | shuffle(4) | repeat() | batch(2) | prefetch | take(1) | skip(0)");
}

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
