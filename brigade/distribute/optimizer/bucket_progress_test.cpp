#include "brigade/distribute/optimizer/bucket_progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace brigade::distribute {
namespace {

using BucketIndex = std::optional<std::size_t>;
const std::vector<BucketIndex> kBucketOf = {1, std::nullopt, 1, 0};

TEST(BucketProgress, TheLastReplicaCompletesAVariableAndTheLastVariableABucket) {
  BucketProgress progress(2);
  progress.start(kBucketOf, 2);
  EXPECT_FALSE(progress.deliver(3));
  EXPECT_FALSE(progress.deliver(2));
  EXPECT_TRUE(progress.deliver(3));
  EXPECT_EQ(progress.filled(3), BucketIndex(0));
  EXPECT_TRUE(progress.deliver(2));
  EXPECT_EQ(progress.filled(2), std::nullopt);
  EXPECT_FALSE(progress.deliver(0));
  EXPECT_EQ(progress.is_filled(), (std::vector<bool>{false, false, true, true}));
  EXPECT_TRUE(progress.deliver(0));
  EXPECT_EQ(progress.filled(0), BucketIndex(1));
}

TEST(BucketProgress, AStepDoesNotRememberTheOneBefore) {
  BucketProgress progress(1);
  progress.start(kBucketOf, 2);
  EXPECT_TRUE(progress.deliver(0));
  EXPECT_EQ(progress.filled(0), std::nullopt);
  progress.start({0, std::nullopt, 0, 0}, 1);
  EXPECT_EQ(progress.is_filled(), std::vector<bool>(4, false));
  for (const std::size_t variable : {2, 0}) {
    EXPECT_TRUE(progress.deliver(variable));
    EXPECT_EQ(progress.filled(variable), std::nullopt);
  }
  EXPECT_TRUE(progress.deliver(3));
  EXPECT_EQ(progress.filled(3), BucketIndex(0));
}

TEST(BucketProgress, IfThreadsDeliverAtTheSameTimeOneOfThemFillsIn) {
  constexpr int kReplicas = 4;
  BucketProgress progress(kReplicas);
  for (int step = 0; step < 20; ++step) {
    const std::vector<BucketIndex> one_bucket(100, BucketIndex(0));
    progress.start(one_bucket, 1);
    std::atomic<int> filled = 0, complete = 0;
    std::vector<std::thread> replicas;
    for (int replica = 0; replica < kReplicas; ++replica) {
      replicas.emplace_back([&] {
        for (std::size_t variable = 0; variable < 100; ++variable) {
          if (!progress.deliver(variable)) continue;
          ++filled;
          if (progress.filled(variable)) ++complete;
        }
      });
    }
    for (std::thread& replica : replicas) replica.join();
    EXPECT_EQ(filled, 100);
    EXPECT_EQ(complete, 1);
  }
}

}  // namespace
}  // namespace brigade::distribute
