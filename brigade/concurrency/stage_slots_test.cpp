#include "brigade/concurrency/stage_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/barrier.h"

namespace brigade::concurrency {
namespace {

constexpr PassDirection kForward = PassDirection::kForward;
constexpr PassDirection kBackward = PassDirection::kBackward;

/// A thread for each task, which are started in an order that is not theirs.
void run_tasks(StageSlots& slots, int tasks, const std::function<void(int)>& body) {
  slots.start();
  std::vector<std::thread> threads;
  for (int number = tasks - 1; number >= 0; --number) {
    threads.emplace_back([&slots, &body, number] {
      const ExecutionSlots::Hold hold(&slots, number);
      body(number);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Up through all stages, and down.
void pass(
    StageSlots& slots, int task, int stages, const std::function<void(int)>& compute = [](int) {}) {
  compute(0);
  for (int stage = 1; stage < stages; ++stage) {
    slots.enter(task, kForward, stage);
    compute(stage);
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    slots.enter(task, kBackward, stage);
    compute(stage);
  }
  slots.finish(task);
}

class Schedules : public ::testing::TestWithParam<PipelineSchedule> {};

TEST_P(Schedules, EachStageMakesItsPassesInTheirOrderAndOneAtATime) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 2, 5, 8}) {
      StageSlots slots({.schedule = GetParam(),
                        .stages = stages,
                        .micro_batches = micro_batches,
                        .timeout = std::chrono::seconds(60)});
      std::vector<int> unguarded(static_cast<std::size_t>(stages), 0);
      for (int step = 0; step < 5; ++step) {
        run_tasks(slots, micro_batches, [&](int task) {
          pass(slots, task, stages,
               [&](int stage) { ++unguarded[static_cast<std::size_t>(stage)]; });
        });
        EXPECT_EQ(slots.passes(), stage_orders(GetParam(), stages, micro_batches));
        for (int stage = 0; stage < stages; ++stage) {
          const int bound = GetParam() == PipelineSchedule::kGPipe
                                ? micro_batches
                                : std::min(stages - stage, micro_batches);
          EXPECT_EQ(slots.peak_micro_batches()[static_cast<std::size_t>(stage)], bound);
        }
      }
      EXPECT_EQ(unguarded,
                std::vector<int>(static_cast<std::size_t>(stages), 5 * 2 * micro_batches));
    }
  }
}

TEST_P(Schedules, OfSomeStagesAreThoseOfTheWhole) {
  constexpr int kMicroBatches = 5;
  for (const int first : {0, 1, 2}) {
    StageSlots slots({.schedule = GetParam(),
                      .stages = 4,
                      .micro_batches = kMicroBatches,
                      .first_stage = first,
                      .own_stages = 2,
                      .timeout = std::chrono::seconds(60)});
    std::atomic<int> computing = 0;
    run_tasks(slots, kMicroBatches, [&](int task) {
      if (first > 0) slots.enter(task, kForward, first);
      slots.enter(task, kForward, first + 1);
      slots.pause(task);  // other processes compute the rest
      ++computing;
      slots.enter(task, kBackward, first + 1);
      slots.enter(task, kBackward, first);
      slots.finish(task);
      slots.release(task);
      slots.acquire(task);
    });
    const StageOrders whole = stage_orders(GetParam(), 4, kMicroBatches);
    EXPECT_EQ(slots.passes(), StageOrders(whole.begin() + first, whole.begin() + first + 2));
    EXPECT_TRUE(slots.keeps_schedule());
    EXPECT_EQ(computing, kMicroBatches);
  }
  EXPECT_THROW(StageSlots({.stages = 4, .first_stage = 3, .own_stages = 2}), Error);
}

TEST_P(Schedules, PassesThatDoNotComeAreLeftOut) {
  StageSlots slots({.schedule = GetParam(), .stages = 2, .micro_batches = 4});
  run_tasks(slots, 4, [&](int task) {
    if (task == 1) return;  // an empty micro-batch, which does not call the model
    slots.enter(task, kForward, 1);
    if (task == 2) return;            // evaluation
    slots.enter(task, kBackward, 0);  // a loss whose gradient does not pass the second stage's end
  });
  EXPECT_EQ(slots.passes()[1].size(), 3U);
  EXPECT_EQ(slots.passes()[0].back(), (StagePass{kBackward, 3}));
}

TEST_P(Schedules, ATaskThatFailsEndsTheWaitsOfAll) {
  StageSlots slots({.schedule = GetParam(), .stages = 3, .micro_batches = 6});
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> given_up{0};
    run_tasks(slots, 6, [&](int task) {
      try {
        slots.enter(task, kForward, 1);
        if (task == 1) throw Error(ErrorCode::kDataLoss, "broken");
        slots.enter(task, kForward, 2);
        slots.enter(task, kBackward, 2);
        slots.enter(task, kBackward, 1);
        // 1F1B may complete the first micro-batch before the second fails.
        if (task == 0) ++given_up;
      } catch (const Error& error) {
        ++given_up;
        if (error.code() == ErrorCode::kDataLoss)
          slots.abort("micro-batch 1 is broken");
        else
          EXPECT_NE(std::string(error.what()).find("micro-batch 1 is broken"), std::string::npos);
      }
    });
    EXPECT_EQ(given_up, 6);
  }
  // The next step is as if nothing had happened.
  run_tasks(slots, 6, [&](int task) { pass(slots, task, 3); });
  EXPECT_EQ(slots.passes(), stage_orders(GetParam(), 3, 6));
}

TEST_P(Schedules, ATaskMayPassTheStagesAgainAndWaitForOthersAfterItsLastPass) {
  StageSlots slots({.schedule = GetParam(), .stages = 2, .micro_batches = 3});
  Barrier barrier({.parties = 3, .spin = std::chrono::microseconds(0)});
  std::vector<int> unguarded(2, 0);
  run_tasks(slots, 3, [&](int task) {
    pass(slots, task, 2);
    for (int again = 0; again < 20; ++again) {
      {
        const ExecutionSlots::Yield yield(&slots, task);
        barrier.arrive_and_wait(task);
      }
      EXPECT_EQ(slots.stage_of(task), task % 2);
      for (const int stage : {0, 1}) {
        slots.enter(task, kForward, stage);
        ++unguarded[static_cast<std::size_t>(stage)];
      }
    }
  });
  EXPECT_EQ(unguarded, std::vector<int>(2, 60));
}

TEST_P(Schedules, WaitsWithinThePassesGiveTheScheduleUp) {
  constexpr int kTasks = 4;
  StageSlots slots({.schedule = GetParam(), .stages = 3, .micro_batches = kTasks});
  Barrier barrier({.parties = kTasks, .spin = std::chrono::microseconds(0)});
  std::vector<int> unguarded(3, 0);
  run_tasks(slots, kTasks, [&](int task) {
    pass(slots, task, 3, [&](int stage) {
      ++unguarded[static_cast<std::size_t>(stage)];
      {
        const ExecutionSlots::Yield yield(&slots, task);
        barrier.arrive_and_wait(task);
      }
      EXPECT_EQ(slots.stage_of(task), stage);
      ++unguarded[static_cast<std::size_t>(stage)];
    });
  });
  EXPECT_EQ(unguarded, std::vector<int>(3, 2 * 2 * kTasks));
  EXPECT_FALSE(slots.keeps_schedule());
  EXPECT_EQ(slots.peak_micro_batches(), std::vector<int>(3, kTasks));
  run_tasks(slots, kTasks, [&](int task) { pass(slots, task, 3); });
  EXPECT_TRUE(slots.keeps_schedule());
}

INSTANTIATE_TEST_SUITE_P(Pipeline, Schedules,
                         ::testing::Values(PipelineSchedule::kGPipe, PipelineSchedule::k1F1B),
                         [](const auto& instance) {
                           return instance.param == PipelineSchedule::kGPipe
                                      ? "GPipe"
                                      : "OneForwardOneBackward";
                         });

TEST(StageSlots, ADeviceWithSeveralStagesComputesOneAtATime) {
  for (const int devices : {1, 2, 3}) {
    for (const int chunks : {2, 3}) {
      for (const int micro_batches : {1, 2, 5, 6}) {
        StageSlots slots({.schedule = PipelineSchedule::kInterleaved,
                          .stages = devices * chunks,
                          .micro_batches = micro_batches,
                          .chunks = chunks,
                          .timeout = std::chrono::seconds(60)});
        std::vector<int> unguarded(static_cast<std::size_t>(devices), 0);
        for (int step = 0; step < 3; ++step) {
          run_tasks(slots, micro_batches, [&](int task) {
            pass(slots, task, devices * chunks,
                 [&](int stage) { ++unguarded[static_cast<std::size_t>(stage % devices)]; });
          });
          EXPECT_EQ(slots.passes(),
                    stage_orders(PipelineSchedule::kInterleaved, devices, micro_batches, chunks));
          EXPECT_TRUE(slots.keeps_schedule());
        }
        EXPECT_EQ(unguarded, std::vector<int>(static_cast<std::size_t>(devices),
                                              3 * 2 * micro_batches * chunks));
        for (int device = 0; device < devices; ++device) {
          EXPECT_LE(slots.peak_micro_batches()[static_cast<std::size_t>(device)],
                    2 * (devices - device - 1) + (chunks - 1) * devices + 1);
        }
      }
    }
  }
}

TEST(StageSlots, DevicesHaveEquallyManyStages) {
  EXPECT_THROW(StageSlots({.schedule = PipelineSchedule::kInterleaved,
                           .stages = 5,
                           .micro_batches = 2,
                           .chunks = 2}),
               Error);
}

TEST(StageSlots, TheTimelineHasASpanForEachPassOneAfterAnother) {
  StageSlots slots({.stages = 3, .micro_batches = 4});
  for (int step = 0; step < 2; ++step) {
    run_tasks(slots, 4, [&](int task) { pass(slots, task, 3); });
    const StageTimeline timeline = slots.timeline();
    ASSERT_EQ(timeline.stages.size(), 3u);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const auto& spans = timeline.stages[stage];
      const std::vector<StagePass> passes = slots.passes()[stage];
      ASSERT_EQ(spans.size(), passes.size());
      for (std::size_t i = 0; i < spans.size(); ++i) {
        EXPECT_EQ(spans[i].micro_batch, passes[i].micro_batch);
        EXPECT_EQ(spans[i].work == StageWork::kForward,
                  passes[i].direction == PassDirection::kForward);
        EXPECT_LE(spans[i].begin, spans[i].end);
        EXPECT_TRUE(i == 0 || spans[i - 1].end <= spans[i].begin);
      }
    }
  }
}

TEST(StageSlots, AWaitHasADeadlineThatNamesThePass) {
  StageSlots slots({.schedule = PipelineSchedule::kGPipe,
                    .stages = 2,
                    .micro_batches = 2,
                    .timeout = std::chrono::milliseconds(5)});
  slots.start();
  slots.begin(0);
  slots.enter(0, kForward, 1);
  slots.begin(1);
  try {
    slots.enter(1, kForward, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_NE(std::string(error.what())
                  .find("forward pass of micro-batch 1 still waits for stage 1 of the pipeline, "
                        "which computes the forward pass of micro-batch 0"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace brigade::concurrency
