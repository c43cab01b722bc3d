#include "brigade/coordination/replica_progress.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::coordination {
namespace {

TEST(ReplicaProgress, NothingWaitsWithoutAReplica) {
  ReplicaProgress progress;
  progress.append(1);
  EXPECT_TRUE(progress.may_acknowledge(1));
  EXPECT_EQ(base::testing::code_of([&] { progress.acknowledge(1); }),
            ErrorCode::kFailedPrecondition);
}

TEST(ReplicaProgress, AReplicaThatCatchesUpIsNotWaitedFor) {
  ReplicaProgress progress;
  progress.begin(10);
  for (std::int64_t number = 11; number <= 1000; ++number) progress.append(number);
  EXPECT_FALSE(progress.acknowledge(500));
  EXPECT_FALSE(progress.is_required());
  EXPECT_TRUE(progress.may_acknowledge(1000));
}

TEST(ReplicaProgress, FromShortlyBeforeItIsCompleteRecordsWaitForIt) {
  ReplicaProgress progress;
  progress.begin(0);
  for (std::int64_t number = 1; number <= 100; ++number) progress.append(number);
  EXPECT_FALSE(progress.acknowledge(98));
  EXPECT_TRUE(progress.is_required());
  EXPECT_FALSE(progress.may_acknowledge(100)) << "it may be about to become complete";
  progress.append(101);
  EXPECT_FALSE(progress.acknowledge(99));
  EXPECT_TRUE(progress.acknowledge(100)) << "101 has not been acknowledged without it";
  EXPECT_TRUE(progress.may_acknowledge(100));
  EXPECT_FALSE(progress.may_acknowledge(101));
  EXPECT_TRUE(progress.acknowledge(101));
  EXPECT_TRUE(progress.may_acknowledge(101));
}

TEST(ReplicaProgress, OneWithEverythingIsCompleteImmediately) {
  ReplicaProgress progress;
  progress.begin(7);
  EXPECT_TRUE(progress.acknowledge(7));
  progress.append(8);
  EXPECT_FALSE(progress.may_acknowledge(8));
  EXPECT_TRUE(progress.acknowledge(7)) << "an earlier message again";
  EXPECT_FALSE(progress.may_acknowledge(8));
}

TEST(ReplicaProgress, OneThatWasDroppedOrBeginsAnewIsNotWaitedFor) {
  ReplicaProgress progress;
  progress.begin(0);
  progress.acknowledge(0);
  progress.append(1);
  EXPECT_FALSE(progress.may_acknowledge(1));
  progress.drop();
  EXPECT_TRUE(progress.may_acknowledge(1));
  progress.begin(1);
  progress.append(2);
  EXPECT_TRUE(progress.may_acknowledge(2));
  EXPECT_EQ(base::testing::code_of([&] { progress.acknowledge(3); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::coordination
