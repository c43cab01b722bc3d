#include "brigade/concurrency/stage_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
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

/// A thread for each device, which computes what is deferred.
class Workers {
 public:
  Workers(StageSlots& slots, int devices) : slots_(slots) {
    for (int device = 0; device < devices; ++device)
      threads_.emplace_back([&slots, device] { slots.run_worker(device); });
    slots.wait_for_workers();
  }
  ~Workers() {
    slots_.stop_workers();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  StageSlots& slots_;
  std::vector<std::thread> threads_;
};

int spans_of(const std::vector<StageSpan>& spans, StageWork work) {
  return static_cast<int>(std::ranges::count(spans, work, &StageSpan::work));
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

TEST_P(Schedules, WhatPassesDeferIsDoneWhenTheirTaskNeedsIt) {
  constexpr int kStages = 3, kTasks = 6, kKept = 2;
  StageSlots slots({.schedule = GetParam(),
                    .stages = kStages,
                    .micro_batches = kTasks,
                    .deferred_tasks = kKept,
                    .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, kStages);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::atomic<int>> deferred(kTasks), done(kTasks);
    run_tasks(slots, kTasks, [&](int task) {
      const auto i = static_cast<std::size_t>(task);
      bool is_backward = false;
      pass(slots, task, kStages, [&](int stage) {
        is_backward |= stage == kStages - 1;
        for (int piece = 0; is_backward && piece < 2 && slots.may_defer(task); ++piece) {
          ++deferred[i];
          slots.defer(task, [&, i] { ++done[i]; });
        }
      });
      slots.complete_deferred(task);
      EXPECT_EQ(done[i], deferred[i]);
    });
    EXPECT_EQ(slots.passes(), stage_orders(GetParam(), kStages, kTasks));
    int spans = 0, all = 0;
    for (const auto& of_stage : slots.timeline().stages)
      spans += spans_of(of_stage, StageWork::kWeightGradient);
    for (const auto& each : deferred) all += each;
    EXPECT_EQ(spans, all);
    EXPECT_GT(all, 0);
    for (int stage = 0; stage < kStages; ++stage) {
      const int own = GetParam() == PipelineSchedule::kGPipe ? kTasks : kStages - stage;
      EXPECT_LE(slots.peak_micro_batches()[static_cast<std::size_t>(stage)],
                std::min(own + kKept, kTasks));
    }
  }
}

TEST_P(Schedules, AnIdleDeviceComputesWhatAnotherStageHasDeferred) {
  StageSlots slots({.schedule = GetParam(),
                    .stages = 2,
                    .micro_batches = 2,
                    .deferred_tasks = 2,
                    .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  std::atomic<bool> is_done = false;
  run_tasks(slots, 2, [&](int task) {
    slots.enter(task, kForward, 1);
    slots.enter(task, kBackward, 1);
    slots.enter(task, kBackward, 0);
    // The device of this stage is taken until the work is done: the other one must do it.
    if (task == 1) {
      ASSERT_TRUE(slots.may_defer(task));
      slots.defer(task, [&] {
        is_done = true;
        is_done.notify_all();
      });
      is_done.wait(false);
    }
    slots.complete_deferred(task);
  });
  const StageTimeline timeline = slots.timeline();
  EXPECT_EQ(spans_of(timeline.stages[0], StageWork::kWeightGradient), 0);
  EXPECT_EQ(spans_of(timeline.stages[1], StageWork::kWeightGradient), 1);
}

TEST_P(Schedules, ATaskGetsTheErrorOfWhatItDeferredAndNothingStaysBehind) {
  StageSlots slots({.schedule = GetParam(),
                    .stages = 2,
                    .micro_batches = 4,
                    .deferred_tasks = 4,
                    .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  for (int round = 0; round < 20; ++round) {
    const auto held = std::make_shared<int>(0);
    std::atomic<int> given_up = 0, broken = 0;
    run_tasks(slots, 4, [&](int task) {
      try {
        slots.enter(task, kForward, 1);
        slots.enter(task, kBackward, 1);
        for (int piece = 0; piece < 3 && slots.may_defer(task); ++piece) {
          slots.defer(task, [held, task, piece] {
            if (task == 1 && piece == 1) throw Error(ErrorCode::kDataLoss, "broken");
          });
        }
        slots.enter(task, kBackward, 0);
        slots.complete_deferred(task);
      } catch (const Error& error) {
        ++given_up;
        if (error.code() == ErrorCode::kDataLoss) ++broken;
        slots.abort(error.what());
      }
      slots.drop_deferred(task);
    });
    EXPECT_EQ(broken, 1);
    EXPECT_GE(given_up, 1);
    EXPECT_EQ(held.use_count(), 1);
  }
  run_tasks(slots, 4, [&](int task) { pass(slots, task, 2); });
  EXPECT_EQ(slots.passes(), stage_orders(GetParam(), 2, 4));
}

TEST_P(Schedules, OfSomeStagesAreThoseOfTheWhole) {
  constexpr int kMicroBatches = 5;
  for (const int first : {0, 1, 2}) {
    StageSlots slots({.schedule = GetParam(),
                      .stages = 4,
                      .micro_batches = kMicroBatches,
                      .first_device = first,
                      .local_devices = 2,
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
    EXPECT_TRUE(slots.follows_schedule());
    EXPECT_EQ(computing, kMicroBatches);
  }
  EXPECT_THROW(StageSlots({.stages = 4, .first_device = 3, .local_devices = 2}), Error);
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
  EXPECT_FALSE(slots.follows_schedule());
  EXPECT_EQ(slots.peak_micro_batches(), std::vector<int>(3, kTasks));
  run_tasks(slots, kTasks, [&](int task) { pass(slots, task, 3); });
  EXPECT_TRUE(slots.follows_schedule());
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
          EXPECT_TRUE(slots.follows_schedule());
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

/// Two devices with three stages each, in two processes.
TEST(StageSlots, SeveralStagesOfADeviceMayAlternateWithThoseOfOtherProcesses) {
  constexpr int kDevices = 2, kChunks = 3, kMicroBatches = 5;
  std::vector<std::unique_ptr<StageSlots>> processes;
  for (int device = 0; device < kDevices; ++device) {
    processes.push_back(
        std::make_unique<StageSlots>(StageSlotsOptions{.schedule = PipelineSchedule::kInterleaved,
                                                       .stages = kDevices * kChunks,
                                                       .micro_batches = kMicroBatches,
                                                       .chunks = kChunks,
                                                       .first_device = device,
                                                       .local_devices = 1,
                                                       .timeout = std::chrono::seconds(60)}));
    processes.back()->start();
  }
  std::vector<std::thread> threads;
  for (int number = kMicroBatches - 1; number >= 0; --number) {
    threads.emplace_back([&, number] {
      for (const auto& process : processes) process->begin(number);
      for (int stage = 1; stage < kDevices * kChunks; ++stage) {
        processes[static_cast<std::size_t>((stage - 1) % kDevices)]->pause(number);
        processes[static_cast<std::size_t>(stage % kDevices)]->enter(number, kForward, stage);
      }
      for (int stage = kDevices * kChunks - 1; stage >= 0; --stage) {
        processes[static_cast<std::size_t>((stage + 1) % kDevices)]->pause(number);
        processes[static_cast<std::size_t>(stage % kDevices)]->enter(number, kBackward, stage);
      }
      for (const auto& process : processes) {
        process->finish(number);
        process->end(number);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const StageOrders whole =
      stage_orders(PipelineSchedule::kInterleaved, kDevices, kMicroBatches, kChunks);
  for (std::size_t device = 0; device < processes.size(); ++device) {
    EXPECT_EQ(processes[device]->passes(), StageOrders{whole[device]});
    EXPECT_TRUE(processes[device]->follows_schedule());
  }
}

TEST_P(Schedules, AStageKeepsNoMoreDeferredWorkThanItMay) {
  StageSlots slots({.schedule = GetParam(),
                    .stages = 2,
                    .micro_batches = 2,
                    .deferred_tasks = 1,
                    .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  std::atomic<bool> last_is_coming = false, has_begun = false, may_end = false;
  run_tasks(slots, 2, [&](int task) {
    slots.enter(task, kForward, 1);
    EXPECT_FALSE(slots.may_defer(task));  // in a forward pass
    slots.enter(task, kBackward, 1);
    if (task == 1) {
      last_is_coming = true;
      last_is_coming.notify_all();
    }
    slots.enter(task, kBackward, 0);
    if (task == 0) {
      last_is_coming.wait(false);
      EXPECT_TRUE(slots.may_defer(0));
      slots.defer(0, [&] {
        has_begun = true;
        has_begun.notify_all();
        may_end.wait(false);
      });
      EXPECT_TRUE(slots.may_defer(0));  // more of the same pass
      has_begun.wait(false);            // on device 1: the other is kept for the last pass
    } else {
      EXPECT_FALSE(slots.may_defer(1));
      may_end = true;
      may_end.notify_all();
    }
    slots.complete_deferred(task);
  });
  EXPECT_EQ(slots.peak_micro_batches()[0], 2);
}

TEST(StageSlots, ADeviceWithAWaitingPassBeginsNoDeferredWorkBeforeIt) {
  StageSlots slots({.schedule = PipelineSchedule::k1F1B,
                    .stages = 2,
                    .micro_batches = 2,
                    .deferred_tasks = 2,
                    .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  std::atomic<bool> is_deferred = false, last_has_begun = false, is_after = false;
  run_tasks(slots, 2, [&](int task) {
    slots.enter(task, kForward, 1);
    if (task == 1) is_deferred.wait(false);
    slots.enter(task, kBackward, 1);
    if (task == 1) {
      last_has_begun = true;
      last_has_begun.notify_all();
    }
    slots.enter(task, kBackward, 0);
    if (task == 0) {
      slots.defer(0, [&] { is_after = last_has_begun.load(); });
      is_deferred = true;
      is_deferred.notify_all();
      last_has_begun.wait(false);
    }
    slots.complete_deferred(task);
  });
  EXPECT_TRUE(is_after);
}

TEST(StageSlots, ATaskThatFailsWaitsForWhatIsBeingComputed) {
  StageSlots slots({.stages = 2, .micro_batches = 1, .deferred_tasks = 1});
  const Workers workers(slots, 2);
  std::atomic<bool> has_begun = false, may_end = false;
  std::atomic<int> done = 0;
  run_tasks(slots, 1, [&](int task) {
    slots.enter(task, kForward, 1);
    slots.enter(task, kBackward, 1);
    slots.enter(task, kBackward, 0);
    slots.defer(task, [&] {
      has_begun = true;
      has_begun.notify_all();
      may_end.wait(false);
      while (done < 100'000) ++done;
    });
    has_begun.wait(false);
    slots.abort("broken");
    may_end = true;
    may_end.notify_all();
    slots.drop_deferred(task);
    EXPECT_EQ(done, 100'000);
  });
}

TEST(StageSlots, WithoutThreadsNothingIsDeferred) {
  StageSlots slots({.stages = 1, .micro_batches = 1, .deferred_tasks = 1});
  run_tasks(slots, 1, [&](int task) {
    slots.enter(task, kBackward, 0);
    EXPECT_FALSE(slots.may_defer(task));
    slots.complete_deferred(task);
  });
}

TEST(StageSlots, DevicesThatAreIdleComputePartOfAParallelFor) {
  StageSlots slots({.stages = 2, .micro_batches = 1});
  std::vector<int> calls(64, 0);
  const auto count = [&](int i) { ++calls[static_cast<std::size_t>(i)]; };
  run_tasks(slots, 1,
            [&](int task) { slots.parallel_for(task, 64, count); });  // without workers: alone
  const Workers workers(slots, 2);
  std::atomic<int> here = 0;
  run_tasks(slots, 1, [&](int task) {
    slots.parallel_for(task, 64, count);
    // Each of two pieces waits for the other: the second device must compute one.
    slots.parallel_for(task, 2, [&](int) {
      ++here;
      here.notify_all();
      for (int now = here; now < 2; now = here) here.wait(now);
    });
    EXPECT_THROW(
        slots.parallel_for(task, 8, [](int) { throw Error(ErrorCode::kDataLoss, "broken"); }),
        Error);
    slots.parallel_for(task, 2, [](int) {});
  });
  EXPECT_EQ(calls, std::vector<int>(64, 2));
  const StageTimeline timeline = slots.timeline();
  EXPECT_GE(spans_of(timeline.stages[0], StageWork::kSum), 4);
  EXPECT_GE(spans_of(timeline.stages[1], StageWork::kSum), 1);
}

TEST(StageSlots, ATaskThatHasFinishedReleasesItsDeviceDuringAParallelFor) {
  StageSlots slots({.stages = 2, .micro_batches = 2, .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  std::atomic<int> own = 0, done = 0;
  for (int step = 0; step < 20; ++step) {
    done = 0;
    run_tasks(slots, 2, [&](int task) {
      pass(slots, task, 2);
      const std::thread::id here = std::this_thread::get_id();
      slots.parallel_for(task, 5, [&](int) {
        ++done;
        if (std::this_thread::get_id() == here) ++own;
      });
      EXPECT_GE(done, 5);
      EXPECT_THROW(
          slots.parallel_for(task, 3, [](int) { throw Error(ErrorCode::kDataLoss, "broken"); }),
          Error);
    });
    EXPECT_EQ(done, 10);
    EXPECT_EQ(slots.passes(), stage_orders(PipelineSchedule::k1F1B, 2, 2));
  }
  EXPECT_EQ(own, 0);
}

TEST(StageSlots, AnAbortEndsTheParallelForOfAFinishedTask) {
  StageSlots slots({.stages = 2, .micro_batches = 1, .timeout = std::chrono::seconds(60)});
  const Workers workers(slots, 2);
  std::atomic<int> begun = 0;
  run_tasks(slots, 1, [&](int task) {
    pass(slots, task, 2);
    const auto work = [&](int) {
      ++begun;
      slots.abort("broken");
    };
    EXPECT_THROW(slots.parallel_for(task, 1000, work), Error);
    EXPECT_LT(begun, 1000);
  });
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
