#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/interleave/interleave.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/data/testing/all_stages.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Clock = std::chrono::steady_clock;
using Numbers = std::vector<std::int64_t>;
constexpr std::chrono::seconds kTuningDeadline{20};

/// The step of that name, which must be the last.
StageStats last_step(const Iterator<std::int64_t>& iterator) {
  const auto stats = iterator.stats();
  return stats.empty() ? StageStats() : stats.back();
}

/// Datasets with slow elements, and the maximum number of threads that read them at the same time.
class SlowSources {
 public:
  Dataset<std::int64_t> read(std::int64_t size) {
    return range(size).map([this](std::int64_t x) {
      const int now = ++inside_;
      for (int max = max_; max < now && !max_.compare_exchange_weak(max, now);) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // like a remote file
      --inside_;
      return x;
    });
  }
  int max() const { return max_; }
  void reset_max() { max_ = inside_.load(); }

 private:
  std::atomic<int> inside_{0};
  std::atomic<int> max_{0};
};

TEST(TunedInterleave, StatsReportThreadsAndElements) {
  auto iterator = range(6)
                      .interleave(hundreds, {.cycle_length = 2, .parallelism = 3})
                      .iterator({.stages = all_stages()});
  rest_of(iterator);
  const StageStats step = last_step(iterator);
  EXPECT_EQ(step.name, "interleave(cycle 2, block 1)");
  EXPECT_EQ(step.threads, 3U);
  EXPECT_EQ(step.capacity, 6U) << "two chunks for each of the cycle, one for each of the next";
  EXPECT_EQ(step.elements, 600U);
  EXPECT_GT(step.queue_depth, 0);
  EXPECT_LE(step.queue_depth, static_cast<double>(step.capacity));
  for (const double fraction : {step.busy, step.stall, step.starved, step.delayed}) {
    EXPECT_GE(fraction, 0);
    EXPECT_LE(fraction, 1);
  }
}

TEST(TunedInterleave, HasNoMoreThreadsThanQueuesToRead) {
  const auto threads_with = [](std::int64_t parallelism) {
    auto iterator = range(6)
                        .interleave(hundreds, {.cycle_length = 1, .parallelism = parallelism})
                        .iterator({.stages = all_stages()});
    iterator.next();
    return last_step(iterator).threads;
  };
  EXPECT_EQ(threads_with(9), 2U);
  EXPECT_LE(threads_with(kAutotune), 2U);
}

TEST(TunedInterleave, IsCountedByDefaultOnlyIfItIsTuned) {
  auto fixed = range(6).interleave(hundreds, {.cycle_length = 2, .parallelism = 2}).iterator();
  rest_of(fixed);
  EXPECT_TRUE(fixed.stats().empty());
  auto tuned =
      range(6).interleave(hundreds, {.cycle_length = 2, .parallelism = kAutotune}).iterator();
  rest_of(tuned);
  EXPECT_EQ(last_step(tuned).elements, 600U);
}

TEST(TunedInterleave, WaitsOfItsConsumerAreNotWorkOfTheStep) {
  SlowSources sources;
  auto iterator = range(2)
                      .interleave([&](std::int64_t) { return sources.read(20); },
                                  {.cycle_length = 2, .parallelism = 2})
                      .iterator({.stages = all_stages()});
  rest_of(iterator);
  const StageStats step = last_step(iterator);
  EXPECT_GT(step.stall, 0.3) << "the consumer does nothing but wait";
  EXPECT_GT(step.busy, 0.1);
}

TEST(TunedInterleave, WaitsForSpaceAreWaitsForTheConsumer) {
  const auto stages = all_stages({.autotune = Autotune::kOff});
  auto iterator = range(2)
                      .interleave(hundreds, {.cycle_length = 1, .parallelism = 2})
                      .iterator({.stages = stages});
  iterator.next();
  Stage& stage = stages->find_or_add("range(2) | interleave(cycle 1, block 1)");
  // Everything is read ahead that may be; a wait is counted when it ends.
  const auto deadline = Clock::now() + kTuningDeadline;
  while (stage.counters.room_waits.value() == 0 && Clock::now() < deadline) {
    if (!iterator.next()) iterator.start_next_epoch();
    std::this_thread::yield();
  }
  EXPECT_GT(stage.counters.room_waits.value(), 0U);
  EXPECT_EQ(stage.counters.pulls.value() > 0, true);
}

TEST(TunedInterleave, ThreadsComeAndGoWithoutChangingAnElement) {
  const auto dataset = [](std::int64_t parallelism) {
    return range(40).interleave(hundreds,
                                {.cycle_length = 5, .block_length = 3, .parallelism = parallelism});
  };
  const Numbers expected = epoch_of(dataset(1));
  const auto stages = all_stages({.autotune = Autotune::kOff});
  auto iterator = dataset(kAutotune).iterator({.stages = stages});
  Stage* const stage =
      stages->find_or_add(dataset(1).describe(), {1, 1}, {.max_threads = 1});  // a separate stage
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % 10 == 0) stage->set({.threads = 1 + i / 10 % 7, .capacity = 1});
    ASSERT_EQ(iterator.next(), expected[i]);
    if (i % 999 == 0) {
      auto resumed = dataset(kAutotune).iterator();
      resumed.restore(json_round_trip(iterator.save()));
      ASSERT_EQ(rest_of(resumed), elements_from(expected, i + 1));
    }
  }
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(TunedInterleave, RelaxedLosesNothingWhileThreadsComeAndGo) {
  const auto dataset = range(40).interleave(
      hundreds, {.cycle_length = 5, .parallelism = kAutotune, .order = Order::kRelaxed});
  const auto stages = all_stages({.autotune = Autotune::kOff});
  auto iterator = dataset.iterator({.stages = stages});
  Stage* const stage = stages->find_or_add(dataset.describe(), {1, 1}, {.max_threads = 1});
  Numbers seen;
  while (auto element = iterator.next()) {
    if (seen.size() % 10 == 0) stage->set({.threads = 1 + seen.size() / 10 % 7, .capacity = 1});
    seen.push_back(*element);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, epoch_of(range(4000)));
}

TEST(TunedInterleave, AConsumerThatWaitsGetsMoreThreads) {
  SlowSources sources;
  const auto dataset = range(1000).interleave([&](std::int64_t) { return sources.read(1000); },
                                              {.cycle_length = 4, .parallelism = kAutotune});
  const auto stages = all_stages({.cpu_budget = 64});
  auto iterator = dataset.iterator({.stages = stages});
  Stage* const stage = stages->find_or_add(dataset.describe(), {1, 1}, {.max_threads = 1});
  stage->set({.threads = 1, .capacity = 1});  // as if it had started so
  iterator.next();
  EXPECT_EQ(sources.max(), 1);
  const auto deadline = Clock::now() + kTuningDeadline;
  while (sources.max() < 3 && Clock::now() < deadline) iterator.next();
  EXPECT_GE(sources.max(), 3);
  EXPECT_GE(stage->settings().threads, 3U);
  EXPECT_LE(stage->settings().threads, 8U) << "twice the cycle";
}

TEST(TunedInterleave, RemovedThreadsReadNoMore) {
  SlowSources sources;
  const auto dataset = range(1000).interleave([&](std::int64_t) { return sources.read(1000); },
                                              {.cycle_length = 4, .parallelism = kAutotune});
  const auto stages = all_stages({.autotune = Autotune::kOff});
  auto iterator = dataset.iterator({.stages = stages});
  Stage* const stage = stages->find_or_add(dataset.describe(), {1, 1}, {.max_threads = 1});
  stage->set({.threads = 4, .capacity = 1});
  const auto deadline = Clock::now() + kTuningDeadline;
  while (sources.max() < 2 && Clock::now() < deadline) iterator.next();
  ASSERT_GE(sources.max(), 2);
  stage->set({.threads = 1, .capacity = 1});
  do {
    sources.reset_max();
    for (int i = 0; i < 40; ++i) iterator.next();
  } while (sources.max() > 1 && Clock::now() < deadline);
  EXPECT_EQ(sources.max(), 1);
}

TEST(TunedInterleave, RunsFromItsFirstElementToItsLast) {
  const auto dataset = range(3).interleave(hundreds, {.cycle_length = 2, .parallelism = kAutotune});
  const auto stages = all_stages();
  auto iterator = dataset.iterator({.stages = stages});
  const Stage* const stage = stages->find_or_add(dataset.describe(), {1, 1}, {.max_threads = 1});
  EXPECT_FALSE(stage->is_running());
  iterator.next();
  EXPECT_TRUE(stage->is_running());
  rest_of(iterator);
  EXPECT_FALSE(stage->is_running()) << "tuning would wait for it forever";
}

TEST(TunedInterleave, ASlowConsumerGetsFewerThreads) {
  const auto dataset =
      range(10'000).interleave(hundreds, {.cycle_length = 4, .parallelism = kAutotune});
  const auto stages = all_stages({.cpu_budget = 64});
  auto iterator = dataset.iterator({.stages = stages});
  Stage* const stage = stages->find_or_add(dataset.describe(), {1, 1}, {.max_threads = 1});
  stage->set({.threads = 6, .capacity = 1});
  const auto deadline = Clock::now() + kTuningDeadline;
  while (stage->settings().threads > 1 && Clock::now() < deadline) {
    iterator.next();
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // the step of the training
  }
  EXPECT_EQ(stage->settings().threads, 1U);
}

}  // namespace
}  // namespace brigade::data
