#include "brigade/comm/replica.h"

#include <gtest/gtest.h>

#include <thread>

namespace brigade::comm {
namespace {

TEST(Replica, IsNullOutsideOfReplicasAndOnOtherThreads) {
  EXPECT_EQ(current_replica(), nullptr);
  const Replica replica{.id = 1, .count = 2, .local_id = 1};
  {
    const base::AmbientScope<const Replica> in_replica(kReplicaSlot, &replica);
    EXPECT_EQ(current_replica(), &replica);
    std::thread([] { EXPECT_EQ(current_replica(), nullptr); }).join();
    const base::AmbientScope<const Replica> cross_replica(kReplicaSlot, nullptr);
    EXPECT_EQ(current_replica(), nullptr);
  }
  EXPECT_EQ(current_replica(), nullptr);
}

}  // namespace
}  // namespace brigade::comm
