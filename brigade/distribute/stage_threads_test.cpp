#include "brigade/distribute/stage_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/concurrency/stage_slots.h"
#include "brigade/machine/affinity.h"

namespace brigade::distribute {
namespace {

using concurrency::PassDirection;
using machine::CoreSet;
using machine::thread_affinity;

/// The first and the last core of this process; the same one if it has one alone.
std::vector<CoreSet> two_cores() {
  const CoreSet all = thread_affinity();
  return {CoreSet({all.cores().front()}), CoreSet({all.cores().back()})};
}

TEST(StageThreads, MicroBatchesComputeOnTheCoresOfTheirStagesAndLeaveThemAtTheEnd) {
  constexpr int kMicroBatches = 4;
  const std::vector<CoreSet> cores = two_cores();
  const CoreSet before = thread_affinity();
  concurrency::StageSlots slots({.stages = 2,
                                 .micro_batches = kMicroBatches,
                                 .timeout = std::chrono::seconds(60),
                                 .threads = std::make_shared<StageThreads>(cores, kMicroBatches)});
  for (int step = 0; step < 3; ++step) {
    slots.start();
    std::atomic<int> elsewhere = 0;
    std::vector<std::thread> threads;
    for (int task = 0; task < kMicroBatches; ++task) {
      threads.emplace_back([&, task] {
        const auto compute = [&](int stage) {
          if (thread_affinity() != cores[static_cast<std::size_t>(stage)]) ++elsewhere;
        };
        {
          const concurrency::ExecutionSlots::Hold hold(&slots, task);
          compute(0);
          slots.enter(task, PassDirection::kForward, 1);
          compute(1);
          slots.enter(task, PassDirection::kBackward, 1);
          compute(1);
          slots.enter(task, PassDirection::kBackward, 0);
          compute(0);
          slots.finish(task);
        }
        if (thread_affinity() != before) ++elsewhere;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(elsewhere, 0);
  }
}

TEST(StageThreads, AThreadThatGotNoDeviceStaysWhereItIs) {
  StageThreads threads(two_cores(), 1);
  const CoreSet before = thread_affinity();
  threads.begin(0);
  EXPECT_EQ(thread_affinity(), before);
  threads.end(0);
  EXPECT_EQ(thread_affinity(), before);
}

}  // namespace
}  // namespace brigade::distribute
