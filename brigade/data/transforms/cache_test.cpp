#include "brigade/data/transforms/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/warnings.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

/// `range(size)` that counts how often its elements are made.
struct Counted {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  Dataset<std::int64_t> numbers(std::int64_t size) const {
    return range(size).map([count = made](std::int64_t x) {
      ++*count;
      return x;
    });
  }
};

TEST(Cache, KeepsTheDatasetContract) {
  expect_contract(range(5).cache(), {0, 1, 2, 3, 4});
  expect_contract(range(0).cache(), {});
  const auto shuffled = range(20).shuffle(7);
  expect_contract(shuffled.cache(), epoch_of(shuffled));
  const auto deep = range(12).shuffle(5).cache().shuffle(4).batch(3).prefetch(2);
  expect_contract(deep, epoch_of(deep));
  const auto twice = range(6).cache().repeat(2).batch(4).cache();
  expect_contract(twice, epoch_of(twice));
}

TEST(Cache, ReadsItsInputOnceInAllEpochsOfAllIterators) {
  const Counted counted;
  const auto cached = counted.numbers(5).cache();
  EXPECT_EQ(epoch_of(cached.repeat(3)).size(), 15U);
  EXPECT_EQ(*counted.made, 5);
  EXPECT_EQ(epoch_of(cached, {.epoch = 7}), (Numbers{0, 1, 2, 3, 4}));
  auto iterator = cached.iterator();
  auto restored = cached.iterator();
  iterator.next();
  restored.restore(iterator.save());
  EXPECT_EQ(rest_of(restored), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(*counted.made, 5);
}

TEST(Cache, KeepsTheOrderOfTheFirstEpochWheneverItIsFilled) {
  const auto shuffled = range(30).shuffle(30);
  const Numbers order = epoch_of(shuffled, {.seed = 5});
  auto from_the_start = shuffled.cache().iterator({.seed = 5});
  EXPECT_EQ(rest_of(from_the_start), order);
  from_the_start.start_next_epoch();
  EXPECT_EQ(rest_of(from_the_start), order);
  EXPECT_EQ(epoch_of(shuffled.cache(), {.seed = 5, .epoch = 9}), order);
}

TEST(Cache, OtherSeedsAndShardsAreCachedSeparately) {
  const auto files = from_files<std::int64_t>({"1", "2"}, [](const io::Path& path) {
    return range(3).map([path](std::int64_t x) { return x + 10 * (path == "1" ? 1 : 2); });
  });
  const auto shuffled = files.shuffle(6);
  const auto cached = shuffled.cache();
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::uint64_t seed : {1, 2}) {
      EXPECT_EQ(epoch_of(cached, {.seed = seed}), epoch_of(shuffled, {.seed = seed}));
      const IteratorOptions half{.seed = seed, .shard = {.count = 2, .index = 1}};
      EXPECT_EQ(epoch_of(cached, half), epoch_of(shuffled, half));
    }
  }
}

TEST(Cache, APositionIsFilledUpToInAFreshProcess) {
  const Counted counted;
  auto saved = counted.numbers(10).cache().iterator();
  for (int i = 0; i < 4; ++i) saved.next();
  const io::StateTree state = json_round_trip(saved.save());
  *counted.made = 0;
  auto fresh = counted.numbers(10).cache().iterator();
  fresh.restore(state);
  EXPECT_EQ(rest_of(fresh), (Numbers{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(*counted.made, 10);
  fresh.start_next_epoch();
  EXPECT_EQ(rest_of(fresh).size(), 10U);
  EXPECT_EQ(*counted.made, 10) << "the resumed epoch has filled it";
}

TEST(Cache, APartialPassIsDroppedAndLoggedOnce) {
  const Counted counted;
  const auto warnings = warnings_of([&] {
    const auto cached = counted.numbers(5).cache();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(epoch_of(cached.take(2)), (Numbers{0, 1}));
    EXPECT_EQ(*counted.made, 6);
  });
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("range(5) | map | cache ended after 2 elements"), std::string::npos);
}

TEST(Cache, APassThatTakesAllElementsIsCompleteWithoutReadingTheEnd) {
  const Counted counted;
  const auto cached = counted.numbers(5).cache();
  EXPECT_TRUE(warnings_of([&] {
                for (int i = 0; i < 3; ++i) epoch_of(cached.take(5));
              }).empty());
  EXPECT_EQ(*counted.made, 5);
}

TEST(Cache, AFailedElementIsReportedAndRetriedInTheNextPass) {
  const auto passes = std::make_shared<std::atomic<int>>(0);
  const auto cached = range(3)
                          .map([passes](std::int64_t x) {
                            if (x == 1 && ++*passes == 1) {
                              throw Error(ErrorCode::kUnavailable, "one is away");
                            }
                            return x;
                          })
                          .cache();
  auto iterator = cached.iterator();
  const auto warnings = warnings_of([&] {
    EXPECT_EQ(iterator.next(), 0);
    EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kUnavailable);
    EXPECT_EQ(rest_of(iterator), (Numbers{2}));
  });
  EXPECT_EQ(warnings.size(), 1U);
  for (int pass = 0; pass < 2; ++pass) {
    iterator.start_next_epoch();
    EXPECT_EQ(rest_of(iterator), (Numbers{0, 1, 2}));
  }
  EXPECT_EQ(*passes, 2);
}

TEST(Cache, ManyThreadsIterateOverIt) {
  const auto cached = range(200).shuffle(50).cache();
  const Numbers expected = epoch_of(range(200).shuffle(50));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        if (epoch_of(cached, {.epoch = epoch}) == expected) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 12);
}

TEST(Cache, RefusesAPositionPastTheEndOfItsInput) {
  const auto five = range(5).cache();
  const auto three = range(3).cache();
  auto longer = five.node()->iterator({});
  auto shorter = three.node()->iterator({});
  longer->skip(4);
  expect_invalid_argument([&] { shorter->restore(longer->save()); },
                          "element 4 of range(3), which has only 3");
}

TEST(Cache, RefusesAnInputThatNeverEnds) {
  expect_invalid_argument([] { range(3).repeat().cache(); }, "put repeat after it");
}

TEST(Cache, ReportsAnErrorAfterTheLastElement) {
  const auto dataset =
      range(5).filter([](std::int64_t) { return true; }).assert_cardinality(3).cache();
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto iterator = dataset.iterator();
    for (std::int64_t x = 0; x < 3; ++x) EXPECT_EQ(iterator.next(), x);
    EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(iterator.next(), std::nullopt);
  }
}

}  // namespace
}  // namespace brigade::data
