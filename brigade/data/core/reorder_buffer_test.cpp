#include "brigade/data/core/reorder_buffer.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

TEST(ReorderBuffer, GivesNumbersUpToItsCapacity) {
  ReorderBuffer buffer(2);
  EXPECT_EQ(buffer.claim(), 0U);
  EXPECT_EQ(buffer.claim(), 1U);
  buffer.publish(1);
  buffer.publish(0);
  EXPECT_TRUE(buffer.wait_for(0));
  buffer.release(0);
  EXPECT_EQ(buffer.claim(), 2U);  // would wait forever if the release were lost
  EXPECT_TRUE(buffer.wait_for(1));
}

TEST(ReorderBuffer, EndsAfterTheLastSlot) {
  ReorderBuffer buffer(4);
  buffer.claim();
  buffer.end(1);
  EXPECT_EQ(buffer.claim(), std::nullopt);
  buffer.publish(0);
  EXPECT_TRUE(buffer.wait_for(0));
  buffer.release(0);
  EXPECT_FALSE(buffer.wait_for(1));
}

TEST(ReorderBuffer, StopEndsWaitsOnBothSides) {
  ReorderBuffer buffer(1);
  buffer.claim();
  std::thread producer([&] { EXPECT_EQ(buffer.claim(), std::nullopt); });
  std::thread consumer([&] { EXPECT_FALSE(buffer.wait_for(0)); });
  buffer.stop();
  producer.join();
  consumer.join();
}

TEST(ReorderBuffer, FailureReachesTheConsumer) {
  ReorderBuffer buffer(1);
  buffer.claim();
  std::thread producer(
      [&] { buffer.fail(std::make_exception_ptr(std::runtime_error("no more"))); });
  EXPECT_THROW(buffer.wait_for(0), std::runtime_error);
  EXPECT_EQ(buffer.claim(), std::nullopt);
  producer.join();
}

TEST(ReorderBuffer, CancellingEndsWaitsOnBothSides) {
  const concurrency::CancelToken token;
  ReorderBuffer buffer({.capacity = 1, .cancel = token});
  buffer.claim();
  std::thread producer([&] { EXPECT_EQ(buffer.claim(), std::nullopt); });
  std::thread consumer([&] {
    try {
      buffer.wait_for(0);
      ADD_FAILURE() << "nothing was filled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    }
  });
  token.cancel();
  producer.join();
  consumer.join();
  ReorderBuffer late({.capacity = 1, .cancel = token});
  EXPECT_EQ(late.claim(), std::nullopt);
  EXPECT_THROW(late.wait_for(0), Error);
}

TEST(ReorderBuffer, RelaxedOrderIsTheOrderOfFilling) {
  ReorderBuffer buffer({.capacity = 2, .slots = 4, .order = Order::kRelaxed});
  buffer.claim();
  buffer.claim();
  buffer.publish(1);
  EXPECT_EQ(buffer.wait_for_any(), 1U);
  buffer.release(1);
  EXPECT_EQ(buffer.claim(), 2U) << "slot 0 uses capacity, but does not block";
  buffer.end(3);
  buffer.publish(2);
  EXPECT_EQ(buffer.wait_for_any(), 2U);
  buffer.publish(0);
  EXPECT_EQ(buffer.wait_for_any(), 0U);
  EXPECT_EQ(buffer.wait_for_any(), std::nullopt);
}

TEST(ReorderBuffer, NoMoreSlotsOvertakeThanTheRingHolds) {
  ReorderBuffer buffer({.capacity = 2, .slots = 3, .order = Order::kRelaxed});
  buffer.claim();
  for (const std::uint64_t number : {1U, 2U}) {
    EXPECT_EQ(buffer.claim(), number);
    buffer.publish(number);
    EXPECT_EQ(buffer.wait_for_any(), number);
    buffer.release(number);
  }
  std::thread producer([&] { EXPECT_EQ(buffer.claim(), 3U); });  // waits for slot 0
  buffer.publish(0);
  EXPECT_EQ(buffer.wait_for_any(), 0U);
  buffer.release(0);
  producer.join();
}

TEST(ReorderBuffer, ItsCapacityMayChange) {
  ReorderBuffer buffer({.capacity = 1, .slots = 3});
  EXPECT_EQ(buffer.claim(), 0U);
  std::thread producer([&] { EXPECT_EQ(buffer.claim(), 1U); });
  buffer.set_capacity(2);
  producer.join();
  buffer.set_capacity(100);  // clamped to the size of the ring
  EXPECT_EQ(buffer.claim(), 2U);
  buffer.set_capacity(1);
  std::thread late([&] { EXPECT_EQ(buffer.claim(), 3U); });
  for (const std::uint64_t number : {0U, 1U, 2U}) {
    buffer.publish(number);
    EXPECT_TRUE(buffer.wait_for(number));
    buffer.release(number);
  }
  late.join();
}

}  // namespace
}  // namespace brigade::data
