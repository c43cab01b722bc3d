#include "brigade/data/transforms/choose_from_datasets.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(ChooseFromDatasets, KeepsTheDatasetContract) {
  const std::vector<Dataset<std::int64_t>> inputs{range(4), numbers_from(10, 2),
                                                  numbers_from(20, 5)};
  const auto turns = range(3).repeat(4);
  expect_contract(choose_from_datasets(inputs, turns), {0, 10, 20, 1, 11, 21, 2}, Length::kUnknown);
  expect_contract(choose_from_datasets(inputs, turns, WhenEmpty::kContinue),
                  {0, 10, 20, 1, 11, 21, 2, 22, 3, 23}, Length::kUnknown);
  expect_contract(choose_from_datasets(inputs, range(0)), {}, Length::kUnknown);
  const auto ahead = choose_from_datasets<std::int64_t>(
      {range(7).shuffle(7).prefetch(2), numbers_from(10, 9).shuffle(3)}, range(2).repeat(),
      WhenEmpty::kContinue);
  expect_contract(ahead, epoch_of(ahead), Length::kUnknown);
}

TEST(ChooseFromDatasets, AnInvalidChoiceIsAnElementThatFails) {
  const auto dataset =
      choose_from_datasets<std::int64_t>({range(4)}, from_elements<std::int64_t>({0, 1, -1, 0}));
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 0);
  expect_invalid_argument([&] { iterator.next(); }, "a choice is dataset 1; they must be 0 to 0");
  expect_invalid_argument([&] { iterator.next(); }, "a choice is dataset -1");
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(dataset.node()->iterator({})->skip(100), 4U);
}

TEST(ChooseFromDatasets, AnElementThatFailsUsesUpItsChoice) {
  const auto broken = range(2).map([](std::int64_t x) {
    if (x == 0) throw Error(ErrorCode::kDataLoss, "broken");
    return x;
  });
  auto iterator =
      choose_from_datasets<std::int64_t>({broken, numbers_from(10, 2)}, range(2).repeat(2))
          .iterator();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(rest_of(iterator), (Numbers{10, 1, 11}));
}

TEST(ChooseFromDatasets, EndlessChoicesOfNothingCanBeCancelled) {
  const concurrency::CancelToken cancel;
  cancel.cancel();
  auto iterator = choose_from_datasets<std::int64_t>(
                      {range(0), range(1)}, numbers_from(0, 1).repeat(), WhenEmpty::kContinue)
                      .iterator({.cancel = cancel});
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

TEST(ChooseFromDatasets, KnowsWhatNeverEnds) {
  const auto endless = range(2).repeat();
  EXPECT_EQ(choose_from_datasets<std::int64_t>({endless, endless}, endless).cardinality(),
            kInfinite);
  EXPECT_EQ(choose_from_datasets<std::int64_t>({endless, endless}, range(2)).cardinality(),
            kUnknown);
  EXPECT_EQ(choose_from_datasets<std::int64_t>({endless, range(2)}, endless).cardinality(),
            kUnknown);
}

TEST(ChooseFromDatasets, RefusesNoDatasets) {
  expect_invalid_argument([] { choose_from_datasets<std::int64_t>({}, range(2)); }, "no datasets");
}

TEST(ChooseFromDatasets, DescribesItself) {
  EXPECT_EQ(choose_from_datasets<std::int64_t>({range(1), range(2)}, range(3)).describe(),
            "choose_from_datasets[stop when empty](range(1), range(2), choices range(3))");
}

}  // namespace
}  // namespace brigade::data
