#include "brigade/data/runtime/stages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/all_stages.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using std::chrono::microseconds;

/// Spins for `time` on its core.
auto spin_for(microseconds time) {
  return [time](std::int64_t x) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
    }
    return x;
  };
}

TEST(Stages, CountEveryStep) {
  auto iterator = range(100)
                      .map(spin_for(microseconds(20)), {.parallelism = 2, .name = "decode"})
                      .batch(10)
                      .prefetch(2)
                      .iterator({.stages = all_stages()});
  rest_of(iterator);
  const auto stats = iterator.stats();
  ASSERT_EQ(stats.size(), 4U);
  EXPECT_EQ(stats[0].name, "range(100)");
  EXPECT_EQ(stats[0].elements, 100U);
  EXPECT_EQ(stats[0].threads, 0U);
  EXPECT_EQ(stats[1].name, "decode");
  EXPECT_EQ(stats[1].elements, 100U);
  EXPECT_EQ(stats[1].threads, 2U);
  EXPECT_EQ(stats[1].capacity, 4U);
  EXPECT_EQ(stats[2].name, "batch(10)");
  EXPECT_EQ(stats[2].elements, 10U);
  EXPECT_EQ(stats[3].name, "prefetch");
  EXPECT_EQ(stats[3].elements, 10U);
  for (const StageStats& step : stats) {
    for (const double fraction : {step.busy, step.stall, step.starved, step.delayed}) {
      EXPECT_GE(fraction, 0);
      EXPECT_LE(fraction, 1);
    }
    EXPECT_LE(step.queue_depth, static_cast<double>(step.capacity));
  }
}

TEST(Stages, AddUpOverPassesAndEpochs) {
  auto iterator = range(10).prefetch(2).repeat(2).iterator({.stages = all_stages()});
  rest_of(iterator);
  iterator.start_next_epoch();
  rest_of(iterator);
  EXPECT_EQ(iterator.stats().size(), 3U);
  EXPECT_EQ(iterator.stats().at(0).elements, 40U);
}

TEST(Stages, RestartWhenCleared) {
  const auto stages = all_stages();
  auto iterator = range(10).iterator({.stages = stages});
  rest_of(iterator);
  stages->clear();
  EXPECT_EQ(stages->stats().at(0).elements, 0U);
}

TEST(Stages, InnerDatasetsCountAsPartOfTheStep) {
  auto iterator = from_files<std::int64_t>({"a", "b"}, [](const io::Path&) {
                    return range(3).prefetch(1);
                  }).iterator({.stages = all_stages()});
  rest_of(iterator);
  EXPECT_EQ(iterator.stats().size(), 1U);
}

TEST(Stages, NameTheBottleneck) {
  auto iterator = range(300)
                      .map(spin_for(microseconds(300)), {.parallelism = 1, .name = "decode"})
                      .prefetch(2)
                      .iterator({.stages = all_stages()});
  rest_of(iterator);
  EXPECT_EQ(bottleneck(iterator.stats()).substr(0, 6), "decode") << describe(iterator.stats());
}

TEST(Stages, ByDefaultOnlyTunedStepsAreCounted) {
  auto iterator = range(50)
                      .map([](std::int64_t x) { return x; }, {.parallelism = kAutotune})
                      .prefetch(2)
                      .iterator();
  rest_of(iterator);
  ASSERT_EQ(iterator.stats().size(), 1U);
  EXPECT_EQ(iterator.stats()[0].name, "map");
  EXPECT_EQ(iterator.stats()[0].elements, 50U);
}

TEST(Stages, ChangingTheThreadsDoesNotChangeAnElement) {
  const auto draw = [](std::int64_t, ElementContext& context) { return context.rng(); };
  const auto expected = epoch_of(range(3000).map(draw));
  const auto stages = all_stages({.autotune = Autotune::kOff});
  auto iterator = range(3000)
                      .map(draw, {.parallelism = kAutotune})
                      .prefetch(kAutotune)
                      .iterator({.stages = stages});
  Stage* const map = stages->find_or_add("range(3000) | map", {}, {.max_threads = 1});
  Stage* const prefetch =
      stages->find_or_add("range(3000) | map | prefetch", {}, {.max_threads = 1});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % 10 == 0) {
      map->set({.threads = 1 + i / 10 % 7, .capacity = 1 + i / 10 % 11});
      prefetch->set({.threads = 1, .capacity = 1 + i / 10 % 5});
    }
    ASSERT_EQ(iterator.next(), expected[i]);
  }
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Stages, ASlowConsumerIsServedByOneThread) {
  const auto stages = all_stages({.cpu_budget = 8});
  auto iterator = range(100'000)
                      .map(spin_for(microseconds(10)), {.parallelism = kAutotune})
                      .iterator({.stages = stages});
  iterator.next();
  Stage* const map = stages->find_or_add("range(100000) | map", {}, {.max_threads = 1});
  map->set({.threads = 6, .capacity = 12});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (map->settings().threads > 1 && std::chrono::steady_clock::now() < deadline) {
    iterator.next();
    std::this_thread::sleep_for(microseconds(200));  // the step of the training
  }
  EXPECT_EQ(map->settings().threads, 1U);
}

TEST(Stages, TheHeavierOfTwoStepsGetsTheThreads) {
  const auto blocked = [](microseconds time) {  // as by remote storage: no core makes it faster
    return [time](std::int64_t x) {
      std::this_thread::sleep_for(time);
      return x;
    };
  };
  const auto light =
      range(1'000'000).map(blocked(microseconds(50)), {.parallelism = kAutotune, .name = "light"});
  const auto both =
      light.map(blocked(microseconds(4000)), {.parallelism = kAutotune, .name = "heavy"});
  const auto stages = all_stages({.cpu_budget = 64});
  auto iterator = both.iterator({.stages = stages});
  Stage* const light_stage = stages->find_or_add(light.describe(), {}, {.max_threads = 1});
  Stage* const heavy_stage = stages->find_or_add(both.describe(), {}, {.max_threads = 1});
  for (Stage* const stage : {light_stage, heavy_stage}) stage->set({.threads = 1, .capacity = 2});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto threads = [](const Stage* stage) { return stage->settings().threads; };
  while ((threads(heavy_stage) < 3 || threads(heavy_stage) <= threads(light_stage)) &&
         std::chrono::steady_clock::now() < deadline) {
    iterator.next();
  }
  EXPECT_GE(threads(heavy_stage), 3U);
  EXPECT_LT(threads(light_stage), threads(heavy_stage));
}

TEST(Stages, RefuseAnEmptyBudget) {
  EXPECT_THROW(all_stages({.cpu_budget = 0}), Error);
}

}  // namespace
}  // namespace brigade::data
