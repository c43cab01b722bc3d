#include "brigade/data/interleave/interleave.h"

#include <gtest/gtest.h>

#include <memory>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(FlatMap, KeepsTheDatasetContract) {
  expect_contract(range(4).flat_map(tens), {10, 20, 21, 30, 31, 32}, Length::kUnknown);
  expect_contract(range(0).flat_map(tens), {}, Length::kUnknown);
  expect_contract(range(1).flat_map(tens), {}, Length::kUnknown);
  const auto shuffled =
      range(9).shuffle(9).flat_map([](std::int64_t x) { return fives(x).shuffle(5); });
  expect_contract(shuffled, epoch_of(shuffled), Length::kUnknown);
}

TEST(FlatMap, EveryInnerDatasetIsShuffledDifferently) {
  const auto order = [](std::int64_t) { return range(20).shuffle(20); };
  const Numbers both = epoch_of(range(2).flat_map(order));
  EXPECT_NE(Numbers(both.begin(), both.begin() + 20), Numbers(both.begin() + 20, both.end()));
  EXPECT_NE(epoch_of(range(2).flat_map(order), {.epoch = 1}), both);
}

TEST(FlatMap, SkipsWithoutComputingElements) {
  auto made = std::make_shared<int>(0);
  const auto counting = range(3).flat_map([made](std::int64_t) {
    return range(1000).map([made](std::int64_t y) { return ++*made, y; });
  });
  auto iterator = counting.node()->iterator({});
  EXPECT_EQ(iterator->skip(2500), 2500U);
  EXPECT_EQ(iterator->next(), 500);
  EXPECT_EQ(*made, 1);
}

TEST(FlatMap, AcceptsMoveOnlyElementsAndFunctions) {
  const auto boxes = range(3).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); });
  const auto lengths =
      boxes.flat_map([held = std::make_unique<int>(2)](std::unique_ptr<std::int64_t> box) {
        return range(*box * *held).map([](std::int64_t x) { return std::make_unique<int>(x); });
      });
  int sum = 0;
  auto iterator = lengths.iterator();
  while (auto element = iterator.next()) sum += **element;
  EXPECT_EQ(sum, 1 + 6);
}

TEST(FlatMap, ErrorsNameTheInnerDataset) {
  const auto fragile = range(4).flat_map([](std::int64_t x) {
    if (x == 1) throw Error(ErrorCode::kNotFound, "no such file");
    return range(2).map([x](std::int64_t y) {
      if (x == 2 && y == 0) throw Error(ErrorCode::kDataLoss, "broken");
      return 10 * x + y;
    });
  });
  auto iterator = fragile.iterator({.epoch = 1});
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(iterator.next(), 1);
  const Error opening = error_of([&] { iterator.next(); });
  EXPECT_EQ(opening.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(opening.what(), "range(4) | flat_map, element 1 of epoch 1: no such file");
  const Error inside = error_of([&] { iterator.next(); });
  EXPECT_EQ(inside.code(), ErrorCode::kDataLoss);
  EXPECT_STREQ(inside.what(),
               "range(4) | flat_map, in the dataset of element 2 of epoch 1: range(2) | map, "
               "element 0 of epoch 1: broken");
  auto resumed = fragile.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(rest_of(resumed), (Numbers{21, 30, 31}));
  EXPECT_EQ(rest_of(iterator), (Numbers{21, 30, 31}));
  EXPECT_EQ(fragile.node()->iterator({})->skip(100), 7U);  // failed elements are counted
}

TEST(FlatMap, RestoreCreatesOnlyTheOpenDatasets) {
  auto made = std::make_shared<int>(0);
  const auto dataset = range(100).flat_map([made](std::int64_t x) { return ++*made, fives(x); });
  auto iterator = dataset.iterator();
  for (int i = 0; i < 203; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  *made = 0;
  auto resumed = dataset.iterator();
  resumed.restore(state);
  EXPECT_EQ(resumed.next(), 403);
  EXPECT_EQ(*made, 1);
}

TEST(FlatMap, RefusesTheStateOfOtherData) {
  auto length = std::make_shared<std::int64_t>(5);
  const auto dataset = range(2).flat_map([length](std::int64_t) { return range(*length); });
  auto iterator = dataset.iterator();
  for (int i = 0; i < 4; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  *length = 2;
  expect_invalid_argument([&] { dataset.iterator().restore(state); }, "other data");
}

TEST(Interleave, KeepsTheDatasetContract) {
  for (const std::int64_t cycle : {1, 2, 5}) {
    for (const std::int64_t block : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << "cycle " << cycle << ", block " << block);
      const auto dataset =
          range(7).interleave(tens, {.cycle_length = cycle, .block_length = block});
      expect_contract(dataset, epoch_of(dataset), Length::kUnknown);
    }
  }
  const auto shuffled = range(9).shuffle(9).interleave(
      [](std::int64_t x) { return fives(x).shuffle(5).prefetch(2); }, {.cycle_length = 3});
  expect_contract(shuffled, epoch_of(shuffled), Length::kUnknown);
}

TEST(Interleave, GoesBackFarIntoALongInput) {
  // The first dataset stays open while hundreds of others come and go: its element is many
  // snapshots back in the input.
  const auto dataset = range(300).interleave(
      [](std::int64_t x) {
        return range(x == 0 ? 250 : 1).map([x](auto y) { return 1000 * x + y; });
      },
      {.cycle_length = 2});
  const Numbers elements = epoch_of(dataset);
  auto iterator = dataset.iterator();
  for (int i = 0; i < 400; ++i) iterator.next();
  auto resumed = dataset.iterator();
  resumed.restore(json_round_trip(iterator.save()));
  EXPECT_EQ(rest_of(resumed), elements_from(elements, 400));
}

TEST(Interleave, ADatasetThatCannotBeCreatedIsOneElementThatFails) {
  const auto fragile = range(5).interleave(
      [](std::int64_t x) {
        if (x == 1) throw Error(ErrorCode::kNotFound, "no such file");
        return fives(x).take(2);
      },
      {.cycle_length = 2});
  auto iterator = fragile.iterator();
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(rest_of(iterator), (Numbers{20, 1, 21, 30, 40, 31, 41}));
}

TEST(Interleave, ADatasetWhoseCreationWasCancelledIsStillTheNext) {
  const concurrency::CancelToken cancel;
  auto waits = std::make_shared<bool>(true);
  const auto dataset = range(3).interleave(
      [cancel, waits](std::int64_t x) {
        if (x == 1 && *waits) {
          cancel.cancel();
          throw Error(ErrorCode::kCancelled, "given up");
        }
        return fives(x);
      },
      {.cycle_length = 2});
  auto iterator = dataset.iterator({.cancel = cancel});
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  const io::StateTree state = json_round_trip(iterator.save());
  *waits = false;
  auto resumed = dataset.iterator();
  resumed.restore(state);
  EXPECT_EQ(rest_of(resumed), elements_from(epoch_of(dataset), 1));
}

TEST(Interleave, AnElementWhoseReadWasCancelledIsStillTheNext) {
  const concurrency::CancelToken cancel;
  auto waits = std::make_shared<bool>(true);
  const auto dataset = range(3).interleave(
      [=](std::int64_t x) {
        return range(3).flat_map([=](std::int64_t y) {
          if (x == 0 && y == 1 && *waits) {
            cancel.cancel();
            throw Error(ErrorCode::kCancelled, "given up");
          }
          return range(10 * x + y, 10 * x + y + 1);
        });
      },
      {.cycle_length = 2});
  auto iterator = dataset.iterator({.cancel = cancel});
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(iterator.next(), 10);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  const io::StateTree state = json_round_trip(iterator.save());
  *waits = false;
  auto resumed = dataset.iterator();
  resumed.restore(state);
  EXPECT_EQ(rest_of(resumed), elements_from(epoch_of(dataset), 2));
}

TEST(Interleave, GoesBackFromItsEnd) {
  for (const std::int64_t parallelism : {1, 3}) {
    const auto dataset =
        range(9).interleave(fives, {.cycle_length = 2, .parallelism = parallelism});
    const auto iterator = dataset.node()->iterator({});
    EXPECT_EQ(iterator->next(), 0);
    const io::StateTree state = iterator->save();
    EXPECT_EQ(iterator->skip(1000), 44U);
    EXPECT_EQ(iterator->next(), std::nullopt);
    iterator->restore(state);
    EXPECT_EQ(iterator->next(), 10);
    EXPECT_EQ(iterator->skip(1000), 43U);
  }
}

TEST(Interleave, ChoosesTheCycleLengthOfTensorFlow) {
  const std::uint64_t cores = usable_cores();
  EXPECT_EQ(internal::cycle_length_for({}), cores);
  EXPECT_EQ(internal::cycle_length_for({.parallelism = kAutotune}), (cores + 2) / 3);
  EXPECT_EQ(internal::cycle_length_for({.parallelism = 1000}), cores);
  EXPECT_EQ(internal::cycle_length_for({.cycle_length = 7}), 7U);
}

TEST(Interleave, RefusesBadLengths) {
  expect_invalid_argument([] { range(3).interleave(tens, {.cycle_length = 0}); },
                          "cycle_length is 0");
  expect_invalid_argument([] { range(3).interleave(tens, {.cycle_length = 1, .block_length = 0}); },
                          "block_length is 0");
  expect_invalid_argument([] { range(3).interleave(tens, {.cycle_length = 1, .parallelism = 0}); },
                          "parallelism is 0");
}

TEST(Interleave, DescribesItself) {
  EXPECT_EQ(range(3).interleave(tens, {.cycle_length = 2, .block_length = 4}).describe(),
            "range(3) | interleave(cycle 2, block 4)");
  EXPECT_EQ(range(3).flat_map(tens).describe(), "range(3) | flat_map");
}

}  // namespace
}  // namespace brigade::data
