#include "brigade/data/transforms/map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <string>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kParallelisms[] = {1, 2, 5, kAutotune};

TEST(Map, KeepsTheDatasetContract) {
  const auto square = [](std::int64_t x) { return x * x; };
  Numbers squares;
  for (std::int64_t x = 0; x < 40; ++x) squares.push_back(x * x);
  for (const std::int64_t parallelism : kParallelisms) {
    SCOPED_TRACE(parallelism);
    expect_contract(range(40).map(square, {.parallelism = parallelism}), squares);
    expect_contract(range(0).map(square, {.parallelism = parallelism}), {});
  }
}

TEST(Map, ChangesTheElementType) {
  const auto text = [](std::int64_t x) { return std::string(static_cast<std::size_t>(x), 'x'); };
  expect_contract(range(3).map(text), {"", "x", "xx"});
}

TEST(Map, GivesEveryElementItsOwnRandomStream) {
  const auto draw = [](std::int64_t, ElementContext& context) { return context.rng(); };
  const auto one = epoch_of(range(50).map(draw));
  for (const std::int64_t parallelism : kParallelisms) {
    EXPECT_EQ(epoch_of(range(50).map(draw, {.parallelism = parallelism})), one);
    expect_contract(range(50).map(draw, {.parallelism = parallelism}), one);
  }
  auto distinct = one;
  std::sort(distinct.begin(), distinct.end());
  EXPECT_EQ(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto mapped = range(50).map(draw);
  EXPECT_NE(epoch_of(mapped, {.epoch = 1}), one);
  EXPECT_NE(epoch_of(mapped, {.seed = 1}), one);
  const auto seeded = range(50).map(draw, {.seed = 4});
  EXPECT_EQ(epoch_of(seeded, {.seed = 1}), epoch_of(seeded, {.seed = 2}));
  EXPECT_NE(epoch_of(mapped.map(draw)), one);
}

TEST(Map, ContextHasTheIndexOfTheElement) {
  const auto index = [](std::int64_t, ElementContext& context) {
    return context.epoch * 100 + context.index;
  };
  const auto dataset = range(3).shuffle(3).map(index, {.parallelism = 2}).repeat(2);
  EXPECT_EQ(epoch_of(dataset), (std::vector<std::uint64_t>{0, 1, 2, 100, 101, 102}));
}

TEST(Map, AStateFitsAnyNumberOfThreads) {
  const auto draw = [](std::int64_t, ElementContext& context) { return context.rng(); };
  for (const std::int64_t from : kParallelisms) {
    for (const std::int64_t to : kParallelisms) {
      auto saved = range(60).map(draw, {.parallelism = from}).iterator();
      for (int i = 0; i < 37; ++i) saved.next();
      auto resumed = range(60).map(draw, {.parallelism = to}).iterator();
      resumed.restore(saved.save());
      EXPECT_EQ(rest_of(resumed), rest_of(saved));
    }
  }
}

TEST(Map, RunsOnSeveralThreadsAtTheSameTime) {
  auto latch = std::make_shared<std::latch>(3);
  const auto wait_for_others = [latch](std::int64_t x) {
    // All three must be inside at the same time for any to leave; the deadline keeps a failure
    // from hanging.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    if (x < 3) latch->count_down();
    while (x < 3 && !latch->try_wait()) {
      if (std::chrono::steady_clock::now() > deadline) throw Error(ErrorCode::kAborted, "alone");
      std::this_thread::yield();
    }
    return x;
  };
  EXPECT_EQ(epoch_of(range(6).map(wait_for_others, {.parallelism = 3})), epoch_of(range(6)));
}

TEST(Map, ErrorsSurfaceAtTheirElementAndNameIt) {
  const auto fragile = [](std::int64_t x) {
    if (x == 2) throw Error(ErrorCode::kDataLoss, "two is broken");
    if (x == 5) throw std::runtime_error("five is odd");
    if (x == 6) throw 6;  // NOLINT: not an exception type
    return x;
  };
  for (const std::int64_t parallelism : kParallelisms) {
    const auto dataset = range(8).map(fragile, {.parallelism = parallelism, .name = "decode"});
    auto iterator = dataset.iterator({.epoch = 1});
    EXPECT_EQ(iterator.next(), 0);
    EXPECT_EQ(iterator.next(), 1);
    const Error own = error_of([&] { iterator.next(); });
    EXPECT_EQ(own.code(), ErrorCode::kDataLoss);
    EXPECT_STREQ(own.what(), "range(8) | decode, element 2 of epoch 1: two is broken");
    EXPECT_EQ(iterator.next(), 3);
    EXPECT_EQ(iterator.next(), 4);
    const Error other = error_of([&] { iterator.next(); });
    EXPECT_EQ(other.code(), ErrorCode::kAborted);
    EXPECT_STREQ(other.what(), "range(8) | decode, element 5 of epoch 1: five is odd");
    EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kAborted);
    auto resumed = dataset.iterator();
    resumed.restore(iterator.save());
    EXPECT_EQ(resumed.next(), 7);
    EXPECT_EQ(iterator.next(), 7);
    EXPECT_EQ(iterator.next(), std::nullopt);
  }
}

TEST(Map, ErrorsOfTheInputKeepTheirNames) {
  const auto fragile = range(2).map(
      [](std::int64_t) -> std::int64_t { throw Error(ErrorCode::kDataLoss, "broken"); });
  for (const std::int64_t parallelism : kParallelisms) {
    auto iterator =
        fragile.map([](std::int64_t x) { return x; }, {.parallelism = parallelism}).iterator();
    EXPECT_STREQ(error_of([&] { iterator.next(); }).what(),
                 "range(2) | map, element 0 of epoch 0: broken");
  }
}

TEST(Map, LeavingEarlyEndsTheThreads) {
  auto alive = std::make_shared<std::atomic<int>>(0);
  {
    const auto dataset = range(1'000'000).map(
        [alive](std::int64_t x) {
          ++*alive;
          --*alive;
          return x;
        },
        {.parallelism = 4});
    for (const std::int64_t x : dataset) {
      if (x == 10) break;
    }
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);  // no thread holds the function any more
}

TEST(Map, PrefetchesABoundedNumberOfElements) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  const auto dataset =
      range(100'000).map([calls](std::int64_t x) { return ++*calls, x; }, {.parallelism = 2});
  auto iterator = dataset.iterator();
  iterator.next();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // time to prefetch too much, if it could
  EXPECT_LE(*calls, 2 * 2 * 16 + 2 * 16 + 16);
}

TEST(Map, RefusesBadParallelism) {
  for (const std::int64_t bad : {0, -2, 5000}) {
    expect_invalid_argument(
        [&] { range(3).map([](std::int64_t x) { return x; }, {.parallelism = bad}); },
        "map: parallelism is " + std::to_string(bad));
  }
}

TEST(Map, CancellingEndsItsThreads) {
  const auto same = [](std::int64_t x) { return x; };
  expect_cancels([&](const auto& source) { return source.map(same, {.parallelism = 3}); });
  expect_cancels([&](const auto& source) { return source.map(same, {.parallelism = kAutotune}); });
  expect_cancels([&](const auto& source) {
    return source.map(same, {.parallelism = 2, .order = Order::kRelaxed}).batch(4);
  });
}

/// Element 0 is ready only when the consumer has seen `needed` others.
struct SlowFirst {
  std::shared_ptr<std::latch> others;
  std::int64_t operator()(std::int64_t x) const {
    if (x == 0) others->wait();
    return x;
  }
};

const MapOptions kRelaxed{.parallelism = 2, .order = Order::kRelaxed};

TEST(RelaxedMap, ASlowElementDoesNotDelayOthers) {
  constexpr int kOthers = 16;
  const auto others = std::make_shared<std::latch>(kOthers);
  auto iterator = range(200).map(SlowFirst{others}, kRelaxed).iterator();
  Numbers seen;
  for (int i = 0; i < kOthers; ++i) {
    seen.push_back(*iterator.next());
    others->count_down();
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0);
  for (const std::int64_t x : rest_of(iterator)) seen.push_back(x);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, epoch_of(range(200)));
}

/// Saved anywhere, with elements delivered out of order, the rest is what was not delivered.
template <class F>
void expect_nothing_lost(F transform, std::size_t size) {
  for (std::size_t index = 0; index <= size; index += 3) {
    const auto open = std::make_shared<std::latch>(0);
    const auto others = std::make_shared<std::latch>(1);
    const auto dataset = transform(range(static_cast<std::int64_t>(size)), others);
    auto iterator = dataset.iterator();
    Numbers seen;
    while (seen.size() < index && seen.size() < 12) seen.push_back(*iterator.next());
    io::StateTree state = json_round_trip(iterator.save());
    others->count_down();
    while (seen.size() < index) seen.push_back(*iterator.next());
    if (index > 12) state = json_round_trip(iterator.save());
    auto resumed = transform(range(static_cast<std::int64_t>(size)), open).iterator();
    resumed.restore(state);
    const Numbers before = seen;
    for (int again = 0; again < 2; ++again) {  // also in an iterator that has run
      seen = before;
      resumed.restore(state);
      if (auto next = resumed.next()) {
        seen.push_back(*next);
        auto later = transform(range(static_cast<std::int64_t>(size)), open).iterator();
        later.restore(json_round_trip(resumed.save()));
        for (const std::int64_t x : rest_of(later)) seen.push_back(x);
      }
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(seen, epoch_of(range(static_cast<std::int64_t>(size)))) << "after " << index;
    }
  }
}

TEST(RelaxedMap, LosesAndRepeatsNothing) {
  expect_nothing_lost(
      [](const auto& source, auto others) { return source.map(SlowFirst{others}, kRelaxed); }, 60);
}

TEST(RelaxedMap, LosesAndRepeatsNothingAfterOtherParallelSteps) {
  const auto same = [](std::int64_t x) { return x; };
  expect_nothing_lost(
      [&](const auto& source, auto others) {
        return source.map(SlowFirst{others}, kRelaxed).prefetch(3);
      },
      60);
  expect_nothing_lost(
      [&](const auto& source, auto others) {
        return source.map(SlowFirst{others}, kRelaxed).map(same, {.parallelism = 3});
      },
      60);
}

TEST(RelaxedMap, AStateFitsAnyOrderAndNumberOfThreads) {
  const auto same = [](std::int64_t x) { return x; };
  const auto others = std::make_shared<std::latch>(1);
  auto saved = range(60).map(SlowFirst{others}, kRelaxed).iterator();
  Numbers seen;
  for (int i = 0; i < 10; ++i) seen.push_back(*saved.next());
  const io::StateTree state = json_round_trip(saved.save());
  others->count_down();
  for (const std::int64_t parallelism : {1, 3}) {
    auto resumed = range(60).map(same, {.parallelism = parallelism}).iterator();
    resumed.restore(state);
    Numbers all = seen;
    all.push_back(*resumed.next());
    EXPECT_EQ(all.back(), 0);
    auto skipping = range(60).map(same, {.parallelism = parallelism}).iterator();
    skipping.restore(state);
    const Numbers rest = rest_of(skipping);
    for (const std::int64_t x : rest_of(resumed)) all.push_back(x);
    EXPECT_EQ(rest.size(), 50U);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, epoch_of(range(60)));
  }
}

TEST(RelaxedMap, AStepThatReadsAgainKeepsTheOrder) {
  const auto dataset =
      range(100).map([](std::int64_t x) { return x * 2; }, kRelaxed).shuffle(10).batch(7);
  const auto plain = range(100).map([](std::int64_t x) { return x * 2; }).shuffle(10).batch(7);
  expect_contract(dataset, epoch_of(plain));
}

TEST(RelaxedMap, SkipReturnsTheNumberOfSkippedElements) {
  const auto dataset = range(100).map([](std::int64_t x) { return x; }, kRelaxed);
  auto iterator = dataset.node()->iterator({});
  std::size_t count_passed = 0;
  for (const std::uint64_t count : {1U, 5U, 40U}) {
    EXPECT_TRUE(iterator->next());
    EXPECT_EQ(iterator->skip(count), count);
    count_passed += 1 + count;
  }
  while (iterator->next()) ++count_passed;
  EXPECT_EQ(count_passed, 100U);
}

}  // namespace
}  // namespace brigade::data
