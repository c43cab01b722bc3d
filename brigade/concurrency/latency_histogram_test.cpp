#include "brigade/concurrency/latency_histogram.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace brigade::concurrency {
namespace {

using std::chrono::microseconds;

TEST(LatencyHistogram, CountsInTheBucketWhoseBoundIsTheFirstThatIsNotExceeded) {
  LatencyHistogram histogram;
  histogram.add(microseconds(0));
  histogram.add(microseconds(100));
  histogram.add(microseconds(101));
  histogram.add(std::chrono::seconds(30));
  histogram.add(std::chrono::hours(1));
  const LatencyCounts counts = histogram.counts();
  EXPECT_EQ(counts.buckets[0], 2);
  EXPECT_EQ(counts.buckets[1], 1);
  EXPECT_EQ(counts.buckets[kLatencyBounds.size() - 1], 1);
  EXPECT_EQ(counts.buckets.back(), 1);
  EXPECT_EQ(counts.total(), 5);
  EXPECT_EQ(counts.sum, std::chrono::hours(1) + std::chrono::seconds(30) + microseconds(201));
}

TEST(LatencyHistogram, LosesNothingThatSeveralThreadsAdd) {
  LatencyHistogram histogram;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 1000; ++k) histogram.add(microseconds(k));
      });
  }
  EXPECT_EQ(histogram.counts().total(), 4000);
  EXPECT_EQ(histogram.counts().sum, microseconds(4 * 999 * 1000 / 2));
}

}  // namespace
}  // namespace brigade::concurrency
