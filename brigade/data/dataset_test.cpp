#include "brigade/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
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

}  // namespace
}  // namespace brigade::data
