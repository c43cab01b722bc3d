#include "brigade/data/runtime/autotune.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace brigade::data {
namespace {

TEST(Autotune, StaysWithinItsBounds) {
  EXPECT_GE(threads_for(kAutotune, "map"), 1U);
  EXPECT_LE(threads_for(kAutotune, "map"), 16U);
  EXPECT_GE(depth_for(kAutotune, "prefetch"), 2U);
  EXPECT_LE(depth_for(kAutotune, "prefetch"), 8U);
}

TEST(Autotune, KeepsGivenNumbers) {
  EXPECT_EQ(threads_for(7, "map"), 7U);
  EXPECT_EQ(depth_for(100, "prefetch"), 100U);
}

constexpr StageLimits kTuned{.max_threads = 16, .max_capacity = 64};
constexpr TuningBudget kTwoCores{.cpu = 2, .memory = 1e9};

/// A map that computes: `threads` of them, busy all the time.
StageSample busy_map(std::size_t threads, double busy) {
  return {.settings = {threads, 2 * threads},
          .limits = kTuned,
          .busy = busy,
          .cpu = busy,
          .feeds_consumer = true};
}

std::size_t threads_for(const StageSample& step, const TuningBudget& budget) {
  return propose({&step, 1}, budget)[0].threads;
}

TEST(Propose, GivesAHeavyMapAllCores) {
  StageSample map = busy_map(1, 1.0);
  map.waited_for = 0.99;
  EXPECT_EQ(threads_for(map, kTwoCores), 2U);
  EXPECT_EQ(threads_for(map, {.cpu = 8}), 8U);
  EXPECT_EQ(threads_for(map, {.cpu = 100}), kTuned.max_threads);
}

TEST(Propose, AddsNoThreadsWhenTheBudgetIsUsed) {
  StageSample map = busy_map(2, 1.97);
  map.waited_for = 0.99;
  EXPECT_EQ(threads_for(map, kTwoCores), 2U);
}

TEST(Propose, DividesTheCoresByCost) {
  // They cost 3 and 1 per element; the heavy one delayed the light one.
  StageSample heavy = busy_map(1, 1.0);
  StageSample light = busy_map(1, 0.34);
  light.waited_for = 0.9;
  heavy.feeds_consumer = false;
  const StageSample steps[] = {heavy, light};
  const auto settings = propose(steps, {.cpu = 4});
  EXPECT_EQ(settings[0].threads, 3U);
  EXPECT_EQ(settings[1].threads, 1U);
}

TEST(Propose, LeavesAConsumerThatNeverWaitsWithFewThreads) {
  EXPECT_EQ(threads_for(busy_map(8, 0.3), {.cpu = 8}), 1U);
  EXPECT_EQ(threads_for(busy_map(8, 1.5), {.cpu = 8}), 2U);
}

TEST(Propose, RaisesThreadsToTheDemandOfTheConsumer) {
  // It waits half of the time, so it could take twice as much.
  StageSample map = busy_map(1, 1.0);
  map.waited_for = 0.5;
  EXPECT_EQ(threads_for(map, {.cpu = 16}), 3U);
}

TEST(Propose, BlockedThreadsUseNoCores) {
  // Reads from remote storage: on a core for a tenth of its time.
  StageSample map = busy_map(2, 2.0);
  map.cpu = 0.2;
  map.waited_for = 0.9;
  EXPECT_EQ(threads_for(map, kTwoCores), 16U);
}

TEST(Propose, AddsNoThreadsIfAnotherStepCannotGoFaster) {
  StageSample map = busy_map(2, 0.4);
  map.feeds_consumer = false;
  StageSample prefetch{
      .settings = {1, 2}, .busy = 1.0, .cpu = 1.0, .waited_for = 0.9, .feeds_consumer = true};
  const StageSample steps[] = {map, prefetch};
  EXPECT_EQ(propose(steps, {.cpu = 8})[0].threads, 1U);
  StageSample serial = busy_map(4, 1.3);
  serial.serial = 0.99;  // the source
  serial.waited_for = 0.9;
  EXPECT_EQ(threads_for(serial, {.cpu = 8}), 2U);
}

TEST(Propose, RespectsASmallerBudget) {
  EXPECT_EQ(threads_for(busy_map(4, 4.0), {.cpu = 1}), 1U);
}

TEST(Propose, DoesNotChangeFixedSteps) {
  StageSample fixed = busy_map(3, 3.0);
  fixed.limits = {};
  fixed.waited_for = 0.99;
  EXPECT_EQ(propose({&fixed, 1}, kTwoCores)[0], fixed.settings);
}

TEST(Propose, DoublesABufferThatWasEmptyAndFull) {
  StageSample prefetch{.settings = {1, 4},
                       .limits = {.max_capacity = 64},
                       .busy = 0.5,
                       .waited_for = 0.05,
                       .full = 0.2,
                       .feeds_consumer = true};
  EXPECT_EQ(propose({&prefetch, 1}, kTwoCores)[0].capacity, 8U);
  prefetch.full = 0;
  EXPECT_EQ(propose({&prefetch, 1}, kTwoCores)[0].capacity, 4U);
  prefetch.full = 0.2;
  prefetch.settings.capacity = 48;
  EXPECT_EQ(propose({&prefetch, 1}, kTwoCores)[0].capacity, 64U);
  prefetch.chunk_bytes = 1e6;
  EXPECT_EQ(propose({&prefetch, 1}, {.cpu = 2, .memory = 10e6})[0].capacity, 10U);
  EXPECT_EQ(propose({&prefetch, 1}, {.cpu = 2, .memory = 1})[0].capacity, 1U);
}

class Tuned {
 public:
  std::size_t threads(double busy, double waited) {
    StageSample map = busy_map(threads_, busy);
    map.waited_for = waited;
    const std::uint64_t key = 0;
    threads_ = tuner_.next({&map, 1}, {&key, 1}, {.cpu = 16})[0].threads;
    return threads_;
  }

 private:
  Tuner tuner_;
  std::size_t threads_ = 1;
};

TEST(Tuner, RaisesImmediatelyByAtMostTwo) {
  Tuned tuned;
  EXPECT_EQ(tuned.threads(1.0, 0.99), 2U);
  EXPECT_EQ(tuned.threads(2.0, 0.99), 4U);
  EXPECT_EQ(tuned.threads(4.0, 0.99), 8U);
}

TEST(Tuner, LowersWhenThreeIntervalsAgree) {
  Tuned tuned;
  while (tuned.threads(1.0, 0.99) < 8) {
  }
  EXPECT_EQ(tuned.threads(0.5, 0), 8U);
  EXPECT_EQ(tuned.threads(2.0, 0), 8U);
  EXPECT_EQ(tuned.threads(0.5, 0), 3U) << "the largest of the three proposals";
  EXPECT_EQ(tuned.threads(0.5, 0), 3U);
  EXPECT_EQ(tuned.threads(0.5, 0), 1U);
}

/// A step whose threads are blocked nearly all the time, of which only some help.
class Blocked {
 public:
  explicit Blocked(std::size_t helpful_threads) : helpful_threads_(helpful_threads) {}

  std::size_t next_threads() {
    const double working = static_cast<double>(std::min(threads_, helpful_threads_));
    const StageSample reads{.settings = {threads_, 2 * threads_},
                            .limits = {.max_threads = 128, .max_capacity = 256, .safe_threads = 16},
                            .busy = static_cast<double>(threads_),
                            .cpu = 0.001 * working,
                            .waited_for = 0.99,
                            .rate = 1000 * working,
                            .feeds_consumer = true};
    const std::uint64_t key = 0;
    threads_ = tuner_.next({&reads, 1}, {&key, 1}, kTwoCores)[0].threads;
    return threads_;
  }
  std::size_t threads_after(int intervals) {
    for (int i = 1; i < intervals; ++i) next_threads();
    return next_threads();
  }

 private:
  Tuner tuner_;
  std::size_t helpful_threads_;
  std::size_t threads_ = 1;
};

TEST(Tuner, AddsBlockedThreadsWhileTheyHelp) {
  EXPECT_EQ(Blocked(1000).threads_after(4), 16U);
  EXPECT_EQ(Blocked(1000).threads_after(7), 128U);
  EXPECT_EQ(Blocked(1000).threads_after(30), 128U) << "and keeps them";
}

TEST(Tuner, RemovesThreadsThatDoNotHelp) {
  Blocked contended(1);
  EXPECT_EQ(contended.threads_after(4), 16U) << "up to here without a trial";
  EXPECT_EQ(contended.next_threads(), 32U) << "on trial";
  EXPECT_EQ(contended.next_threads(), 16U);
  EXPECT_EQ(contended.threads_after(15), 16U) << "not tried again soon";
  Blocked remote(32);
  EXPECT_EQ(remote.threads_after(6), 64U);
  EXPECT_EQ(remote.next_threads(), 32U);
}

}  // namespace
}  // namespace brigade::data
