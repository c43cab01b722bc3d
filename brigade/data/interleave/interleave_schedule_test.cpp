#include "brigade/data/interleave/interleave_schedule.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

using Schedule = InterleaveSchedule<int, int>;
using Queue = Schedule::Queue;
constexpr std::chrono::seconds kDeadline{20};

Schedule::Cycle cycle() {
  return Schedule::Cycle({.name = "test", .cycle_length = 1}, {});
}
Queue::Chunk chunk_of(int element) {
  Queue::Chunk made;
  made.results.push_back({element, nullptr});
  return made;
}
/// The result of `claim` on another thread; the wait has a deadline.
std::future<std::optional<Schedule::Task>> claim_elsewhere(Schedule& schedule, std::size_t number) {
  return std::async(std::launch::async, [&schedule, number] { return schedule.claim(number); });
}
bool has_come(std::future<std::optional<Schedule::Task>>& claimed) {
  return claimed.wait_for(kDeadline) == std::future_status::ready;
}

/// Gives the other thread time to start waiting. With less time a test checks less, but does not
/// fail.
void let_it_wait() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(InterleaveSchedule, OneWorkerReadsTheInputAndOthersReadQueues) {
  Schedule schedule({}, cycle());
  schedule.start(2);
  const auto pull = schedule.claim(0);
  ASSERT_TRUE(pull.has_value());
  EXPECT_EQ(pull->queue, nullptr);
  schedule.add({{}, {7, nullptr}});
  const auto pull_on = schedule.claim(0);
  ASSERT_TRUE(pull_on.has_value());
  EXPECT_EQ(pull_on->queue, nullptr) << "queues come before they are read";
  const auto read = schedule.claim(1);
  ASSERT_TRUE(read.has_value() && read->queue != nullptr);
  EXPECT_EQ(read->queue->element.element, 7);
  schedule.publish(*read->queue, chunk_of(70));
  EXPECT_TRUE(schedule.select());
  EXPECT_EQ(schedule.cycle().take().element, 70);
}

TEST(InterleaveSchedule, ASurplusWorkerEndsAndHasNotWaitedForSpace) {
  StageCounters counters;
  Schedule schedule({.counters = &counters}, cycle());
  schedule.start(2);
  ASSERT_TRUE(schedule.claim(0).has_value());  // takes from the input
  auto second = claim_elsewhere(schedule, 1);
  let_it_wait();
  schedule.set_threads(1);
  EXPECT_TRUE(has_come(second));
  schedule.stop();
  EXPECT_FALSE(second.get().has_value());
  EXPECT_EQ(counters.room_waits.value(), 0U) << "nothing was ready";
}

TEST(InterleaveSchedule, ATaskThatOneWorkerLeavesIsDoneByAnother) {
  Schedule schedule({}, cycle());
  schedule.start(2);
  schedule.claim(0);
  schedule.add({{}, {7, nullptr}});
  schedule.claim(0);
  schedule.add({{}, {std::nullopt, nullptr}});  // the end of the input
  const auto read = schedule.claim(1);
  ASSERT_TRUE(read.has_value() && read->queue != nullptr);
  auto first = claim_elsewhere(schedule, 0);
  schedule.publish(*read->queue, chunk_of(70));
  EXPECT_TRUE(schedule.select());  // into its slot, where two chunks may be ready
  EXPECT_TRUE(has_come(first));
  EXPECT_EQ(first.get()->queue, read->queue);
  auto second = claim_elsewhere(schedule, 1);
  schedule.set_threads(1);
  EXPECT_TRUE(has_come(second));
  EXPECT_FALSE(second.get().has_value());
}

TEST(InterleaveSchedule, AWorkerThatEndsWakesAnother) {
  Schedule schedule({}, cycle());
  schedule.start(2);
  schedule.claim(1);
  schedule.add({{}, {7, nullptr}});
  schedule.claim(1);
  schedule.add({{}, {std::nullopt, nullptr}});
  const auto read = schedule.claim(1);
  ASSERT_TRUE(read.has_value() && read->queue != nullptr);
  schedule.cycle().find(Order::kInOrder);  // into its slot
  auto first = claim_elsewhere(schedule, 0);
  schedule.set_threads(1);
  let_it_wait();
  schedule.publish(*read->queue, chunk_of(70));
  EXPECT_FALSE(schedule.claim(1).has_value());
  EXPECT_TRUE(has_come(first)) << "another chunk can be read, and the worker was waiting";
  schedule.stop();
  first.get();
}

TEST(InterleaveSchedule, WorkersWaitForSpaceWhileTheConsumerTakesNothing) {
  StageCounters counters;
  Schedule schedule({.counters = &counters}, cycle());
  schedule.start(1);
  schedule.claim(0);
  schedule.add({{}, {7, nullptr}});
  schedule.claim(0);
  schedule.add({{}, {std::nullopt, nullptr}});
  const auto read = schedule.claim(0);
  ASSERT_TRUE(read.has_value() && read->queue != nullptr);
  schedule.publish(*read->queue, chunk_of(70));
  auto waiting = claim_elsewhere(schedule, 0);  // an upcoming queue has one chunk ready
  let_it_wait();
  EXPECT_TRUE(schedule.select());
  EXPECT_TRUE(has_come(waiting));
  EXPECT_EQ(waiting.get()->queue, read->queue);
  EXPECT_EQ(counters.takes.value(), 1U);
  EXPECT_EQ(counters.filled_at_takes.value(), 1U);
}

TEST(InterleaveSchedule, AFailureReachesTheConsumerAndEndsTheOthers) {
  Schedule schedule({}, cycle());
  schedule.start(2);
  schedule.claim(0);
  auto other = claim_elsewhere(schedule, 1);
  schedule.fail(std::make_exception_ptr(Error(ErrorCode::kDataLoss, "first")));
  schedule.fail(std::make_exception_ptr(Error(ErrorCode::kAborted, "second")));
  EXPECT_TRUE(has_come(other));
  EXPECT_FALSE(other.get().has_value());
  for (int i = 0; i < 2; ++i) {
    try {
      schedule.select();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace brigade::data::internal
