#include "brigade/data/transforms/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/failing_sources.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Shuffle, KeepsTheDatasetContract) {
  for (const std::int64_t buffer : {1, 2, 7, 20, 50}) {
    SCOPED_TRACE(buffer);
    const auto dataset = range(20).shuffle(buffer);
    expect_contract(dataset, epoch_of(dataset));
    EXPECT_EQ(sorted(epoch_of(dataset)), epoch_of(range(20)));
  }
  expect_contract(range(0).shuffle(3), {});
}

TEST(Shuffle, OrderNeverChanges) {
  // Saved jobs rely on it: a change here must not happen unnoticed.
  EXPECT_EQ(epoch_of(range(10).shuffle({.buffer_size = 4, .seed = 1})),
            (Numbers{0, 2, 1, 3, 6, 5, 4, 7, 9, 8}));
}

TEST(Shuffle, DrawsFromItsBufferOnly) {
  const Numbers order = epoch_of(range(100).shuffle(5));
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_LT(order[i], static_cast<std::int64_t>(i) + 5);  // later ones were not yet read
  }
  EXPECT_EQ(epoch_of(range(9).shuffle(1)), epoch_of(range(9)));
}

TEST(Shuffle, AFullBufferReachesEveryOrder) {
  std::map<Numbers, int> counts;
  for (std::uint64_t seed = 0; seed < 2400; ++seed) {
    ++counts[epoch_of(range(4).shuffle({.buffer_size = 4, .seed = seed}))];
  }
  EXPECT_EQ(counts.size(), 24U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 100, 45);
}

TEST(Shuffle, EpochsDifferAndRunsRepeat) {
  const ShuffleOptions seeded{.buffer_size = 20, .seed = 5};
  for (const auto& dataset : {range(20).shuffle(20), range(20).shuffle(seeded)}) {
    EXPECT_NE(epoch_of(dataset, {.epoch = 0}), epoch_of(dataset, {.epoch = 1}));
    EXPECT_EQ(epoch_of(dataset, {.epoch = 1}), epoch_of(dataset, {.epoch = 1}));
  }
}

TEST(Shuffle, WithoutReshuffleEpochsAreEqual) {
  const auto dataset = range(20).shuffle({.buffer_size = 20, .reshuffle_each_iteration = false});
  EXPECT_EQ(epoch_of(dataset, {.epoch = 0}), epoch_of(dataset, {.epoch = 1}));
  EXPECT_NE(epoch_of(dataset), epoch_of(range(20)));
}

TEST(Shuffle, UsesTheJobsSeedUnlessItsSeedIsSet) {
  const auto open = range(20).shuffle(20);
  EXPECT_NE(epoch_of(open, {.seed = 1}), epoch_of(open, {.seed = 2}));
  const auto fixed = range(20).shuffle({.buffer_size = 20, .seed = 5});
  EXPECT_EQ(epoch_of(fixed, {.seed = 1}), epoch_of(fixed, {.seed = 2}));
}

TEST(Shuffle, TwoInOnePipelineDrawDifferently) {
  const Numbers once = epoch_of(range(20).shuffle(20));
  Numbers twice = epoch_of(range(20).shuffle(20).shuffle(20));
  Numbers squared;
  for (const auto index : once) squared.push_back(once[static_cast<std::size_t>(index)]);
  EXPECT_NE(twice, squared);
  EXPECT_NE(twice, once);
}

TEST(Shuffle, RefusesAnEmptyBuffer) {
  expect_invalid_argument([] { range(3).shuffle(0); }, "buffer_size is 0; it must be 1 or more");
  expect_invalid_argument([] { range(3).shuffle(-4); }, "buffer_size is -4");
}

TEST(Shuffle, RefusesTheStateOfAnotherShuffle) {
  auto saved = range(20).shuffle({.buffer_size = 5, .seed = 1}).iterator();
  saved.next();
  const auto restore_into = [&](ShuffleOptions options) {
    const auto other = range(20).shuffle(options);
    other.node()->iterator({})->restore(saved.save().at("position"));
  };
  expect_invalid_argument([&] { restore_into({.buffer_size = 6, .seed = 1}); }, "shuffle(5)");
  expect_invalid_argument([&] { restore_into({.buffer_size = 5, .seed = 2}); }, "another seed");
}

TEST(Shuffle, RefusesABrokenState) {
  auto iterator = range(20).shuffle(5).iterator();
  iterator.next();
  for (const auto& [filled, drawn] : {std::pair{1, 2}, std::pair{19, 1}, std::pair{30, 28}}) {
    io::StateTree state = iterator.save();
    state["position"]["filled"] = filled;
    state["position"]["drawn"] = drawn;
    EXPECT_EQ(error_of([&] { iterator.restore(state); }).code(), ErrorCode::kInvalidArgument);
  }
}

TEST(Shuffle, AFailedElementFailsWhenDrawnAndDoesNotChangeTheOrder) {
  const auto fragile = range(10).map([](std::int64_t x) {
    if (x == 4) throw Error(ErrorCode::kDataLoss, "four is broken");
    return x;
  });
  const Numbers order = epoch_of(range(10).map([](std::int64_t x) { return x; }).shuffle(5));
  auto iterator = fragile.shuffle(5).iterator();
  for (const std::int64_t expected : order) {
    if (expected == 4) {
      EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
    } else {
      EXPECT_EQ(iterator.next(), expected);
    }
  }
}

TEST(Shuffle, RestoringReadsOnlyTheElementsInTheBuffer) {
  auto reads = std::make_shared<int>(0);
  const auto dataset = range(1000)
                           .map([reads](std::int64_t x) {
                             ++*reads;
                             return x;
                           })
                           .shuffle(10);
  auto iterator = dataset.iterator();
  for (int i = 0; i < 700; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  *reads = 0;
  iterator.restore(state);
  EXPECT_EQ(*reads, 9);
}

TEST(Shuffle, StopsReadingOnceItIsCancelled) {
  const concurrency::CancelToken token;
  const CancellableSource source(1000, token);
  auto iterator = source.dataset()
                      .map([token](std::int64_t x) {
                        if (x == 5) token.cancel();
                        return x;
                      })
                      .shuffle(100'000)
                      .iterator({.cancel = token});
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  EXPECT_LT(source.calls(), 20);
}

TEST(Shuffle, AcceptsMoveOnlyElements) {
  const auto dataset =
      range(6).map([](std::int64_t x) { return std::make_unique<std::int64_t>(x); }).shuffle(3);
  auto iterator = dataset.iterator();
  iterator.next();
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  while (const auto element = iterator.next()) EXPECT_EQ(**resumed.next(), **element);
  EXPECT_FALSE(resumed.next());
}

}  // namespace
}  // namespace brigade::data
