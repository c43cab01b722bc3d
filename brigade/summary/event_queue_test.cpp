#include "brigade/summary/event_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "brigade/base/testing/error_code.h"

namespace brigade::summary {
namespace {

using base::testing::code_of;
using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr auto kSoon = std::chrono::seconds(10);  // a deadline that only a broken queue reaches

TEST(EventQueue, PassesEventsOnAfterTheHoldTime) {
  EventQueue queue({.hold = milliseconds(20)});
  const auto begin = std::chrono::steady_clock::now();
  queue.push("a");
  queue.push("b");
  const EventQueue::Batch batch = queue.take();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
  EXPECT_THAT(batch.events, ElementsAre("a", "b"));
  EXPECT_FALSE(batch.is_last);
}

TEST(EventQueue, WakesTheWriterBeforeItIsFull) {
  EventQueue queue({.events = 4, .hold = kSoon});
  auto batch = std::async(std::launch::async, [&] { return queue.take(); });
  queue.push("a");
  queue.push("b");
  ASSERT_EQ(batch.wait_for(kSoon / 2), std::future_status::ready);
}

TEST(EventQueue, WakesTheWriterByBytesToo) {
  EventQueue queue({.bytes = 100, .hold = kSoon});
  queue.push(std::string(60, 'x'));
  auto batch = std::async(std::launch::async, [&] { return queue.take(); });
  ASSERT_EQ(batch.wait_for(kSoon / 2), std::future_status::ready);
}

TEST(EventQueue, WaitsWhileFullUpToItsPatience) {
  EventQueue queue({.events = 1, .patience = milliseconds(20)});
  queue.push("a");
  EXPECT_EQ(code_of([&] { queue.push("b"); }), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(code_of([&] { queue.wait_until_written(); }), ErrorCode::kDeadlineExceeded);
  queue.take();
  EXPECT_NO_THROW(queue.push("c"));
  EXPECT_THAT(queue.take().events, ElementsAre("c"));
}

TEST(EventQueue, AcceptsOneEventThatIsLargerThanTheQueue) {
  EventQueue queue({.bytes = 10, .patience = milliseconds(1)});
  queue.push(std::string(100, 'x'));
  EXPECT_EQ(code_of([&] { queue.push("b"); }), ErrorCode::kDeadlineExceeded);
}

TEST(EventQueue, AFlushWaitsForEarlierEventsOnly) {
  EventQueue queue({.hold = kSoon});
  queue.push("a");
  auto flush = std::async(std::launch::async, [&] { queue.wait_until_written(); });
  const EventQueue::Batch batch = queue.take();
  EXPECT_THAT(batch.events, ElementsAre("a"));
  EXPECT_EQ(flush.wait_for(milliseconds(5)), std::future_status::timeout);
  queue.mark_written(batch);
  EXPECT_NO_THROW(flush.get());
  EXPECT_NO_THROW(queue.wait_until_written());  // nothing new: nothing to wait for
}

TEST(EventQueue, AFailureEndsEveryWait) {
  EventQueue queue({.events = 1, .hold = kSoon});
  queue.push("a");
  const auto code_in_thread = [&](auto call) {
    return std::async(std::launch::async, [call] { return code_of(call); });
  };
  auto push = code_in_thread([&] { queue.push("b"); });
  auto flush = code_in_thread([&] { queue.wait_until_written(); });
  queue.fail(Error(ErrorCode::kResourceExhausted, "full"));
  EXPECT_EQ(push.get(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(flush.get(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { queue.push("c"); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(queue.take_unseen_failure().has_value(), false);
}

TEST(EventQueue, KeepsAFailureThatWasNotThrown) {
  EventQueue queue({});
  queue.fail(Error(ErrorCode::kDataLoss, "broken"));
  EXPECT_EQ(queue.take_unseen_failure()->code(), ErrorCode::kDataLoss);
  EXPECT_EQ(queue.take_unseen_failure().has_value(), false);
}

TEST(EventQueue, ClosesWithWhatItHolds) {
  EventQueue queue({.hold = kSoon});
  queue.push("a");
  queue.close();
  EXPECT_EQ(code_of([&] { queue.push("b"); }), ErrorCode::kFailedPrecondition);
  const EventQueue::Batch batch = queue.take();
  EXPECT_THAT(batch.events, ElementsAre("a"));
  EXPECT_TRUE(batch.is_last);
}

}  // namespace
}  // namespace brigade::summary
