#include "brigade/data/transforms/sample_from_datasets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

std::vector<Dataset<std::int64_t>> three() {
  return {range(4), numbers_from(10, 2), numbers_from(20, 5)};
}

/// Endless datasets that only say which they are.
std::vector<Dataset<std::int64_t>> endless(std::int64_t count) {
  std::vector<Dataset<std::int64_t>> datasets;
  for (std::int64_t i = 0; i < count; ++i) datasets.push_back(numbers_from(i, 1).repeat());
  return datasets;
}

std::vector<std::int64_t> counts_of(const Dataset<std::int64_t>& dataset, std::int64_t draws) {
  std::vector<std::int64_t> counts(3, 0);
  for (const std::int64_t x : dataset.take(draws)) ++counts[static_cast<std::size_t>(x)];
  return counts;
}

TEST(SampleFromDatasets, KeepsTheDatasetContract) {
  for (const WhenEmpty when_empty : {WhenEmpty::kContinue, WhenEmpty::kStop}) {
    const auto dataset = sample_from_datasets(three(), {0.2, 0.3, 0.5}, {.when_empty = when_empty});
    expect_contract(dataset, epoch_of(dataset), Length::kUnknown);
  }
  expect_contract(sample_from_datasets(three(), {0, 2, 0}), {10, 11});
}

TEST(SampleFromDatasets, LosesAndRepeatsNothingAndKeepsOrders) {
  Numbers mixed = epoch_of(sample_from_datasets(three()));
  for (const std::int64_t tens : {0, 1, 2}) {
    Numbers own;
    for (const std::int64_t x : mixed) {
      if (x / 10 == tens) own.push_back(x);
    }
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
  }
  std::sort(mixed.begin(), mixed.end());
  EXPECT_EQ(mixed, (Numbers{0, 1, 2, 3, 10, 11, 20, 21, 22, 23, 24}));
}

TEST(SampleFromDatasets, DrawsByWeight) {
  // Bounds of five deviations of the binomial distribution.
  const auto counts = counts_of(sample_from_datasets(endless(3), {1, 2, 5}), 80'000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 10'000, 5 * 94);
  EXPECT_NEAR(static_cast<double>(counts[1]), 20'000, 5 * 123);
  EXPECT_NEAR(static_cast<double>(counts[2]), 50'000, 5 * 137);
  const auto even = counts_of(sample_from_datasets(endless(3)), 30'000);
  for (const std::int64_t count : even) EXPECT_NEAR(static_cast<double>(count), 10'000, 5 * 82);
}

TEST(SampleFromDatasets, TheOthersKeepTheirWeightsWhenOneIsEmpty) {
  auto datasets = endless(3);
  datasets[2] = numbers_from(2, 1).take(0);
  const auto counts = counts_of(sample_from_datasets(datasets, {1, 3, 1e12}), 40'000);
  EXPECT_EQ(counts[2], 0);
  EXPECT_NEAR(static_cast<double>(counts[0]), 10'000, 5 * 87);
}

TEST(SampleFromDatasets, ChoicesDependOnlyOnSeedAndEpoch) {
  const auto dataset = sample_from_datasets(endless(2)).take(64);
  const Numbers first = epoch_of(dataset);
  EXPECT_EQ(epoch_of(dataset), first);
  EXPECT_NE(epoch_of(dataset, {.epoch = 1}), first);
  EXPECT_NE(epoch_of(dataset, {.seed = 1}), first);
  const auto fixed = sample_from_datasets(endless(2), {}, {.seed = 4}).take(64);
  EXPECT_EQ(epoch_of(fixed, {.seed = 1}), epoch_of(fixed, {.seed = 2}));
  EXPECT_NE(epoch_of(fixed, {.epoch = 1}), epoch_of(fixed));
  const auto same =
      sample_from_datasets(endless(2), {}, {.rerandomize_each_iteration = false}).take(64);
  EXPECT_EQ(epoch_of(same, {.epoch = 1}), epoch_of(same));
}

TEST(SampleFromDatasets, KnowsWhatNeverEnds) {
  const SampleOptions stops{.when_empty = WhenEmpty::kStop};
  EXPECT_EQ(sample_from_datasets(endless(2)).cardinality(), kInfinite);
  EXPECT_EQ(sample_from_datasets(endless(2), {}, stops).cardinality(), kInfinite);
  const std::vector<Dataset<std::int64_t>> mixed{range(3), range(2).repeat()};
  EXPECT_EQ(sample_from_datasets(mixed).cardinality(), kInfinite);
  EXPECT_EQ(sample_from_datasets(mixed, {}, stops).cardinality(), kUnknown);
  EXPECT_EQ(sample_from_datasets(mixed, {1, 0}).cardinality(), 3);
}

TEST(SampleFromDatasets, RefusesBadWeights) {
  expect_invalid_argument([] { sample_from_datasets<std::int64_t>({}); }, "no datasets");
  expect_invalid_argument([] { sample_from_datasets(three(), {1, 2}); }, "2 weights for 3");
  expect_invalid_argument([] { sample_from_datasets(three(), {1, -1, 1}); }, "a weight is -1");
  expect_invalid_argument([] { sample_from_datasets(three(), {0, 0, 0}); }, "add up to 0");
  const double most = std::numeric_limits<double>::max();
  expect_invalid_argument(
      [&] {
        sample_from_datasets(three(), {most, most, most});
      },
      "add up to inf");
}

TEST(SampleFromDatasets, RefusesTheStateOfAnotherSeed) {
  const auto sample = [](std::uint64_t seed) {
    return sample_from_datasets(three(), {}, {.seed = seed});
  };
  auto iterator = sample(1).iterator();
  iterator.next();
  expect_invalid_argument([&] { sample(2).iterator().restore(iterator.save()); }, "another seed");
}

TEST(SampleFromDatasets, IsShardedAsItsInputsAre) {
  const auto hinted = range(8).shard_hint();
  EXPECT_TRUE(sample_from_datasets<std::int64_t>({hinted, hinted}).sharding().has_hint);
  EXPECT_EQ(sample_from_datasets<std::int64_t>({hinted, hinted}).sharding().counting_step, "");
  EXPECT_EQ(
      sample_from_datasets<std::int64_t>({hinted, hinted}, {}, {.when_empty = WhenEmpty::kStop})
          .sharding()
          .counting_step,
      "sample_from_datasets");
  Numbers seen;
  for (const std::int64_t index : {0, 1}) {
    const Shard shard{.by = ShardBy::kHint, .count = 2, .index = index};
    for (const auto x :
         epoch_of(sample_from_datasets<std::int64_t>({hinted, hinted}), {.shard = shard})) {
      seen.push_back(x);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (Numbers{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
}

TEST(SampleFromDatasets, DescribesItself) {
  EXPECT_EQ(sample_from_datasets<std::int64_t>({range(1), range(2)}, {0.5, 1}).describe(),
            "sample_from_datasets[continue](0.5 of range(1), 1 of range(2))");
}

}  // namespace
}  // namespace brigade::data
