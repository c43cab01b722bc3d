#include "brigade/distribute/per_replica.h"

#include <gtest/gtest.h>

#include <vector>

namespace brigade::distribute {
namespace {

TEST(PerReplica, HoldsOneValuePerReplica) {
  PerReplica<int> values({10, 20});
  EXPECT_EQ(values.size(), 2u);
  EXPECT_EQ(values[1], 20);
  values[1] = 30;
  EXPECT_EQ(values.values(), (std::vector<int>{10, 30}));
  EXPECT_THROW(values[2], std::out_of_range);
}

TEST(PerReplica, NeedsAValue) {
  EXPECT_THROW(PerReplica<int>(std::vector<int>{}), Error);
}

TEST(PerReplica, KnowsReplicasWithoutExamples) {
  const PerReplica<int> counted({1, 2, 3}, ExampleCounts::of({4, 3, 0}));
  EXPECT_EQ(counted.examples()->global, 7);
  EXPECT_FALSE(counted.is_empty(1));
  EXPECT_TRUE(counted.is_empty(2));
  EXPECT_FALSE(PerReplica<int>({1, 2}).is_empty(0)) << "unknown is not empty";
}

static_assert(IsPerReplica<PerReplica<int>>::value);
static_assert(!IsPerReplica<int>::value);

}  // namespace
}  // namespace brigade::distribute
