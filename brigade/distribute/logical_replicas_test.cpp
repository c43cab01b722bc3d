#include "brigade/distribute/logical_replicas.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::distribute {
namespace {

using Counts = std::vector<int>;

TEST(LogicalReplicas, AreDividedEvenlyAndTheFirstDevicesGetOneMore) {
  EXPECT_EQ(logical_replicas_of(8, 3).of_device, Counts({3, 3, 2}));
  EXPECT_EQ(logical_replicas_of(4, 1).of_device, Counts({4}));
  EXPECT_EQ(logical_replicas_of(4, 4).of_device, Counts({1, 1, 1, 1}));
  EXPECT_EQ(logical_replicas_of(8, 3).count, 8);
}

TEST(LogicalReplicas, AProcessHasTheBlockOfItsDevices) {
  EXPECT_EQ(divide_logical_replicas(8, 3, 0, 1).of_device, Counts({3}));
  EXPECT_EQ(divide_logical_replicas(8, 3, 1, 2).of_device, Counts({3, 2}));
}

TEST(LogicalReplicas, NoneUnlessAskedFor) {
  EXPECT_EQ(logical_replicas_of(0, 3).count, 0);
  EXPECT_TRUE(logical_replicas_of(0, 3).of_device.empty());
}

TEST(LogicalReplicas, FewerThanDevicesAreRefused) {
  for (const int count : {1, -1}) {
    try {
      logical_replicas_of(count, 2);
      FAIL() << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what())
                    .find("logical_replicas is " + std::to_string(count) + " and there are 2"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace brigade::distribute
