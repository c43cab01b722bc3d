#include "brigade/comm/communicator.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

TEST(ReduceOp, HasANameForMessages) {
  EXPECT_EQ(to_string(ReduceOp::kSum), "sum");
  EXPECT_EQ(to_string(ReduceOp::kMean), "mean");
  EXPECT_EQ(to_string(ReduceOp::kMax), "max");
  EXPECT_EQ(to_string(ReduceOp::kMin), "min");
}

TEST(CollectiveCall, HasANameForMessages) {
  EXPECT_EQ((CollectiveCall{.kind = Collective::kAllReduce, .op = ReduceOp::kMin}.name()),
            "all_reduce(min)");
  EXPECT_EQ((CollectiveCall{.kind = Collective::kMakeBuffer}.name()), "make_buffer");
  EXPECT_EQ((CollectiveCall{.kind = static_cast<Collective>(99)}.name()), "an unknown call");
}

TEST(CollectiveCall, KnowsWhatNoRankCanMake) {
  const at::Tensor integers = at::full({2}, 1, at::kLong);
  const CollectiveCall mean{
      .kind = Collective::kAllReduce, .op = ReduceOp::kMean, .tensors = {&integers, 1}};
  EXPECT_NE(mean.find_problem(2).value_or("").find("Long[2]"), std::string::npos);
  for (const int root : {-1, 0, 1, 2}) {
    const CollectiveCall call{.kind = Collective::kBroadcast, .root = root};
    EXPECT_EQ(call.find_problem(2).has_value(), root < 0 || root > 1);
  }
  EXPECT_FALSE((CollectiveCall{.kind = Collective::kAllGather, .root = 7}.find_problem(2)));
}

}  // namespace
}  // namespace brigade::comm
