#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"
#include "brigade/data/testing/tables.h"
#include "brigade/data/transforms/choose_from_datasets.h"
#include "brigade/data/transforms/sample_from_datasets.h"
#include "brigade/data/transforms/zip.h"

/// What transforms that select, join and mix datasets give, beside what tf.data gives.
namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

const Table& table() {
  static const Table kTable("combining");
  return kTable;
}

Length expected_length(std::int64_t cardinality) {
  return cardinality == kUnknown ? Length::kUnknown : Length::kKnown;
}

template <class T>
void expect_matches_table(const std::string& name, const Dataset<T>& dataset) {
  SCOPED_TRACE(name);
  EXPECT_EQ(dataset.cardinality(), table().cardinality(name));
  const auto elements = table().elements<T>(name);
  // What has no end, and what TensorFlow takes to have none, is compared as far as the table goes.
  if (table().cardinality(name) == kInfinite) {
    EXPECT_EQ(epoch_of(dataset.take(static_cast<std::int64_t>(elements.size()))), elements);
  } else {
    expect_contract(dataset, elements, expected_length(dataset.cardinality()));
  }
}

TEST(Combining, FiltersAsTensorFlow) {
  expect_matches_table("range(10).filter(even)", range(10).filter(is_even));
  expect_matches_table("range(0).filter(even)", range(0).filter(is_even));
  expect_matches_table("range(10).filter(none)",
                       range(10).filter([](std::int64_t x) { return x > 10; }));
  const std::string endless = "range(3).repeat().filter(even)";
  EXPECT_EQ(range(3).repeat().filter(is_even).cardinality(), table().cardinality(endless));
  EXPECT_EQ(epoch_of(range(3).repeat().filter(is_even).take(5)),
            table().elements<std::int64_t>(endless));
}

TEST(Combining, FlatMapsAsTensorFlow) {
  expect_matches_table("range(9).flat_map(tens)", range(9).flat_map(tens));
  expect_matches_table("range(0).flat_map(tens)", range(0).flat_map(tens));
  const std::string endless = "range(3).repeat().flat_map(fives)";
  EXPECT_EQ(range(3).repeat().flat_map(fives).cardinality(), table().cardinality(endless));
  EXPECT_EQ(epoch_of(range(3).repeat().flat_map(fives).take(12)),
            table().elements<std::int64_t>(endless));
}

TEST(Combining, InterleavesAsTensorFlowWithAndWithoutThreads) {
  for (const std::int64_t count : {0, 1, 5, 13}) {
    for (const std::string inner : {"tens", "fives"}) {
      for (const std::int64_t cycle : {1, 2, 3, 4, 16}) {
        for (const std::int64_t block : {1, 2, 3, 7}) {
          const std::string name =
              base::str_cat("range(", count, ").interleave(", inner, ", ", cycle, ", ", block, ")");
          SCOPED_TRACE(name);
          const auto elements = table().elements<std::int64_t>(name);
          for (const std::int64_t parallelism : {1, 3}) {
            const auto dataset = range(count).interleave(
                inner == "tens" ? tens : fives,
                {.cycle_length = cycle, .block_length = block, .parallelism = parallelism});
            EXPECT_EQ(dataset.cardinality(), table().cardinality(name));
            ASSERT_EQ(epoch_of(dataset), elements) << parallelism;
          }
        }
      }
    }
  }
  expect_matches_table("range(13).interleave(tens, 3, 2)",
                       range(13).interleave(tens, {.cycle_length = 3, .block_length = 2}));
  const std::string endless = "range(3).repeat().interleave(fives, 2, 2)";
  const auto dataset =
      range(3).repeat().interleave(fives, {.cycle_length = 2, .block_length = 2, .parallelism = 2});
  EXPECT_EQ(dataset.cardinality(), table().cardinality(endless));
  EXPECT_EQ(epoch_of(dataset.take(20)), table().elements<std::int64_t>(endless));
}

TEST(Combining, ConcatenatesAsTensorFlow) {
  expect_matches_table("range(3).concatenate(range(2))", range(3).concatenate(range(2)));
  expect_matches_table("range(3).concatenate(range(0))", range(3).concatenate(range(0)));
  expect_matches_table("range(3).concatenate(range(2).repeat())",
                       range(3).concatenate(range(2).repeat()));
  expect_matches_table("range(2).repeat().concatenate(range(3))",
                       range(2).repeat().concatenate(range(3)));
  expect_matches_table("range(6).filter(even).concatenate(range(2))",
                       range(6).filter(is_even).concatenate(range(2)));
  expect_matches_table("range(6).filter(even).concatenate(range(2).repeat())",
                       range(6).filter(is_even).concatenate(range(2).repeat()));
  expect_matches_table("range(2).concatenate(range(1)).repeat(2)",
                       range(2).concatenate(range(1)).repeat(2));
}

TEST(Combining, ZipsAsTensorFlow) {
  const auto endless = range(2).repeat();
  const auto evens = range(9).filter(is_even);
  expect_matches_table("zip(range(3), range(5))", zip(range(3), range(5)));
  expect_matches_table("zip(range(5), range(3))", zip(range(5), range(3)));
  expect_matches_table("zip(range(3), range(2).repeat())", zip(range(3), endless));
  expect_matches_table("zip(range(3).repeat(), range(2).repeat())",
                       zip(range(3).repeat(), endless));
  expect_matches_table("zip(range(3), range(9).filter(even))", zip(range(3), evens));
  expect_matches_table("zip(range(0), range(9).filter(even))", zip(range(0), evens));
  expect_matches_table("zip(range(2).repeat(), range(9).filter(even))", zip(endless, evens));
  expect_matches_table("zip(range(4), range(3), range(5)).batch(2)",
                       zip(range(4), range(3), range(5)).batch(2));
}

TEST(Combining, EnumeratesAndAppliesAsTensorFlow) {
  expect_matches_table("range(3).enumerate(5)", range(13).skip(10).enumerate(5));
  expect_matches_table("range(2).repeat().enumerate()", range(2).repeat().enumerate());
  expect_matches_table("range(9).filter(even).enumerate()", range(9).filter(is_even).enumerate());
  expect_matches_table(
      "range(4).apply(skip 1)",
      range(4).apply([](const Dataset<std::int64_t>& each) { return each.skip(1); }));
}

TEST(Combining, ChoosesAsTensorFlow) {
  const auto from = [](std::int64_t first, std::int64_t count) {
    return range(count).map([first](std::int64_t x) { return first + x; });
  };
  const std::vector<Dataset<std::int64_t>> inputs{range(4), from(10, 2), from(20, 5)};
  std::vector<Dataset<std::int64_t>> endless;
  for (const auto& input : inputs) endless.push_back(input.repeat());
  const std::vector<Dataset<std::int64_t>> partly{range(4), from(10, 2).repeat()};
  const auto choices = [](Numbers each) { return from_elements(std::move(each)); };
  for (const WhenEmpty when : {WhenEmpty::kStop, WhenEmpty::kContinue}) {
    const std::string then = when == WhenEmpty::kStop ? ", stop)" : ", go on)";
    expect_matches_table("choose(0 1 2" + then,
                         choose_from_datasets(inputs, range(3).repeat(4), when));
    expect_matches_table("choose(1 1 1 0" + then,
                         choose_from_datasets(inputs, choices({1, 1, 1, 0}), when));
    expect_matches_table("choose(2" + then, choose_from_datasets(inputs, choices({2, 2}), when));
    expect_matches_table("choose(none" + then, choose_from_datasets(inputs, choices({}), when));
    // TensorFlow takes these to be endless, though choices or datasets end.
    const auto ending = choose_from_datasets(endless, range(3).repeat(3), when);
    EXPECT_EQ(epoch_of(ending), table().elements<std::int64_t>("choose(endless" + then));
    const auto mixed = choose_from_datasets(partly, range(2).repeat(), when).take(12);
    EXPECT_EQ(epoch_of(mixed), table().elements<std::int64_t>("choose(partly endless" + then));
    const SampleOptions options{.when_empty = when};
    expect_matches_table("sample(weights 0 1 0" + then,
                         sample_from_datasets(inputs, {0, 1, 0}, options));
    EXPECT_EQ(sample_from_datasets(inputs, {}, options).cardinality(),
              table().cardinality("sample(finite" + then));
  }
  Numbers all = epoch_of(sample_from_datasets(inputs, {0.2, 0.3, 0.5}));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, table().at("sample(finite, go on)").at("sorted").get<Numbers>());
  EXPECT_EQ(sample_from_datasets(partly).cardinality(),
            table().cardinality("sample(partly endless, go on)"));
}

}  // namespace
}  // namespace brigade::data
