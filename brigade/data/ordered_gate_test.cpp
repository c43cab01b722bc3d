#include "brigade/data/ordered_gate.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace brigade::data {
namespace {

TEST(OrderedGate, HandsOutNumbersUpToItsCapacity) {
  OrderedGate gate(2);
  EXPECT_EQ(gate.claim(), 0U);
  EXPECT_EQ(gate.claim(), 1U);
  gate.publish(1);
  gate.publish(0);
  EXPECT_TRUE(gate.wait_for(0));
  gate.release(0);
  EXPECT_EQ(gate.claim(), 2U);  // would wait for ever if the release were lost
  EXPECT_TRUE(gate.wait_for(1));
}

TEST(OrderedGate, EndsBehindTheLastSlot) {
  OrderedGate gate(4);
  gate.claim();
  gate.end(1);
  EXPECT_EQ(gate.claim(), std::nullopt);
  gate.publish(0);
  EXPECT_TRUE(gate.wait_for(0));
  gate.release(0);
  EXPECT_FALSE(gate.wait_for(1));
}

TEST(OrderedGate, StopReleasesBothSides) {
  OrderedGate gate(1);
  gate.claim();
  std::thread producer([&] { EXPECT_EQ(gate.claim(), std::nullopt); });
  std::thread consumer([&] { EXPECT_FALSE(gate.wait_for(0)); });
  gate.stop();
  producer.join();
  consumer.join();
}

TEST(OrderedGate, FailureReachesTheConsumer) {
  OrderedGate gate(1);
  gate.claim();
  std::thread producer([&] { gate.fail(std::make_exception_ptr(std::runtime_error("no more"))); });
  EXPECT_THROW(gate.wait_for(0), std::runtime_error);
  EXPECT_EQ(gate.claim(), std::nullopt);
  producer.join();
}

}  // namespace
}  // namespace brigade::data
