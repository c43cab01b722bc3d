#include "brigade/data/core/reorder_buffer.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

TEST(ReorderBuffer, HandsOutNumbersUpToItsCapacity) {
  ReorderBuffer gate(2);
  EXPECT_EQ(gate.claim(), 0U);
  EXPECT_EQ(gate.claim(), 1U);
  gate.publish(1);
  gate.publish(0);
  EXPECT_TRUE(gate.wait_for(0));
  gate.release(0);
  EXPECT_EQ(gate.claim(), 2U);  // would wait for ever if the release were lost
  EXPECT_TRUE(gate.wait_for(1));
}

TEST(ReorderBuffer, EndsBehindTheLastSlot) {
  ReorderBuffer gate(4);
  gate.claim();
  gate.end(1);
  EXPECT_EQ(gate.claim(), std::nullopt);
  gate.publish(0);
  EXPECT_TRUE(gate.wait_for(0));
  gate.release(0);
  EXPECT_FALSE(gate.wait_for(1));
}

TEST(ReorderBuffer, StopReleasesBothSides) {
  ReorderBuffer gate(1);
  gate.claim();
  std::thread producer([&] { EXPECT_EQ(gate.claim(), std::nullopt); });
  std::thread consumer([&] { EXPECT_FALSE(gate.wait_for(0)); });
  gate.stop();
  producer.join();
  consumer.join();
}

TEST(ReorderBuffer, FailureReachesTheConsumer) {
  ReorderBuffer gate(1);
  gate.claim();
  std::thread producer([&] { gate.fail(std::make_exception_ptr(std::runtime_error("no more"))); });
  EXPECT_THROW(gate.wait_for(0), std::runtime_error);
  EXPECT_EQ(gate.claim(), std::nullopt);
  producer.join();
}

TEST(ReorderBuffer, CancellingEndsBothSides) {
  const concurrency::CancelToken token;
  ReorderBuffer gate({.capacity = 1, .cancel = token});
  gate.claim();
  std::thread producer([&] { EXPECT_EQ(gate.claim(), std::nullopt); });
  std::thread consumer([&] {
    try {
      gate.wait_for(0);
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

TEST(ReorderBuffer, RelaxedOrderIsThatOfFilling) {
  ReorderBuffer gate({.capacity = 2, .slots = 4, .order = Order::kRelaxed});
  gate.claim();
  gate.claim();
  gate.publish(1);
  EXPECT_EQ(gate.wait_for_any(), 1U);
  gate.release(1);
  EXPECT_EQ(gate.claim(), 2U) << "slot 0 takes up one place, and not the turn";
  gate.end(3);
  gate.publish(2);
  EXPECT_EQ(gate.wait_for_any(), 2U);
  gate.publish(0);
  EXPECT_EQ(gate.wait_for_any(), 0U);
  EXPECT_EQ(gate.wait_for_any(), std::nullopt);
}

TEST(ReorderBuffer, NobodyPassesMoreThanTheRingHolds) {
  ReorderBuffer gate({.capacity = 2, .slots = 3, .order = Order::kRelaxed});
  gate.claim();
  for (const std::uint64_t number : {1U, 2U}) {
    EXPECT_EQ(gate.claim(), number);
    gate.publish(number);
    EXPECT_EQ(gate.wait_for_any(), number);
    gate.release(number);
  }
  std::thread producer([&] { EXPECT_EQ(gate.claim(), 3U); });  // waits for slot 0
  gate.publish(0);
  EXPECT_EQ(gate.wait_for_any(), 0U);
  gate.release(0);
  producer.join();
}

TEST(ReorderBuffer, ItsCapacityMayChange) {
  ReorderBuffer gate({.capacity = 1, .slots = 3});
  EXPECT_EQ(gate.claim(), 0U);
  std::thread producer([&] { EXPECT_EQ(gate.claim(), 1U); });
  gate.set_capacity(2);
  producer.join();
  gate.set_capacity(100);  // no more than the ring has
  EXPECT_EQ(gate.claim(), 2U);
  gate.set_capacity(1);
  std::thread late([&] { EXPECT_EQ(gate.claim(), 3U); });
  for (const std::uint64_t number : {0U, 1U, 2U}) {
    gate.publish(number);
    EXPECT_TRUE(gate.wait_for(number));
    gate.release(number);
  }
  late.join();
}

}  // namespace
}  // namespace brigade::data
