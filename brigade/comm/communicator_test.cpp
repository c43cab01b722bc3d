#include "brigade/comm/communicator.h"

#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

TEST(ReduceOp, HasANameForMessages) {
  EXPECT_EQ(to_string(ReduceOp::kSum), "sum");
  EXPECT_EQ(to_string(ReduceOp::kMean), "mean");
  EXPECT_EQ(to_string(ReduceOp::kMax), "max");
  EXPECT_EQ(to_string(ReduceOp::kMin), "min");
}

}  // namespace
}  // namespace brigade::comm
