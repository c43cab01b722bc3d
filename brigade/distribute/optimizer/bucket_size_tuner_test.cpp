#include "brigade/distribute/optimizer/bucket_size_tuner.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "brigade/base/error.h"

namespace brigade::distribute {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr BucketSizeTunerOptions kShortTrial{.warm_up_steps = 3, .steps_per_round = 4, .rounds = 3};

/// What each step used, of a run in which a step takes as long as `milliseconds_of(size, step)`.
Sizes run(BucketSizeTuner& tuner, const std::function<double(std::int64_t, int)>& milliseconds_of,
          int steps = 1'000) {
  Sizes used;
  BucketSizeTuner::Time now{};
  for (int step = 0; step < steps && !tuner.is_due(); ++step) {
    used.push_back(tuner.bytes_per_pack());
    now += std::chrono::nanoseconds(
        static_cast<std::int64_t>(1e6 * milliseconds_of(tuner.bytes_per_pack(), step)));
    tuner.step_done(now);
  }
  return used;
}

TEST(BucketSizeTuner, TriesEachSizeInRounds) {
  BucketSizeTuner tuner({0, 1, 4}, kShortTrial);
  const Sizes used = run(tuner, [](std::int64_t, int) { return 1.0; });
  Sizes wanted(3, 0);  // the warm-up
  for (int round = 0; round < 3; ++round) {
    for (const std::int64_t size : {0, 1, 4}) wanted.insert(wanted.end(), 4, size);
  }
  EXPECT_EQ(used, wanted);
  EXPECT_FALSE(tuner.is_settled());
}

TEST(BucketSizeTuner, TheFastestIsTheBest) {
  const std::map<std::int64_t, double> milliseconds = {{0, 10}, {1, 9}, {4, 7}, {16, 8}};
  BucketSizeTuner tuner({0, 1, 4, 16}, kShortTrial);
  run(tuner, [&](std::int64_t size, int) { return milliseconds.at(size); });
  ASSERT_TRUE(tuner.is_due());
  EXPECT_EQ(tuner.best(), 2u);
  tuner.settle(tuner.best());
  EXPECT_TRUE(tuner.is_settled());
  EXPECT_FALSE(tuner.is_due());
  EXPECT_EQ(tuner.bytes_per_pack(), 4);
}

TEST(BucketSizeTuner, StepsThatAreSlowForOtherReasonsDoNotCount) {
  BucketSizeTuner tuner({0, 1}, kShortTrial);
  // The first steps, those that change the size, and now and then one that also writes a
  // checkpoint.
  run(tuner, [last = std::int64_t{-1}](std::int64_t size, int step) mutable {
    const bool is_slow = step < 3 || size != last || step % 9 == 5;
    last = size;
    return is_slow ? 1'000.0 : size == 1 ? 5.0 : 6.0;
  });
  EXPECT_EQ(tuner.best(), 1u);
}

TEST(BucketSizeTuner, ASmallGainIsIgnored) {
  BucketSizeTuner tuner({0, 1, 4}, kShortTrial);
  run(tuner, [](std::int64_t size, int) { return size == 0 ? 10.0 : 9.9; });
  EXPECT_EQ(tuner.best(), 0u);
}

TEST(BucketSizeTuner, AnotherProcessMayChoose) {
  BucketSizeTuner tuner({0, 1, 4}, kShortTrial);
  run(tuner, [](std::int64_t size, int) { return size == 1 ? 1.0 : 2.0; });
  tuner.settle(2);
  EXPECT_EQ(tuner.bytes_per_pack(), 4);
  EXPECT_NE(tuner.report().find("in buckets of"), std::string::npos);
  EXPECT_THROW(tuner.settle(3), Error);
}

TEST(BucketSizeTuner, ASingleSizeIsFinalFromTheStart) {
  BucketSizeTuner tuner({7});
  EXPECT_TRUE(tuner.is_settled());
  EXPECT_FALSE(tuner.is_due());
  EXPECT_EQ(tuner.bytes_per_pack(), 7);
  EXPECT_THROW(BucketSizeTuner({}), Error);
}

TEST(BucketSizeTuner, SizesNotSmallerThanTheModelAreNotTried) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  EXPECT_EQ(BucketSizeTuner::sizes_for(kMebibyte), Sizes{0});
  EXPECT_EQ(BucketSizeTuner::sizes_for(kMebibyte + 1), (Sizes{0, kMebibyte}));
  EXPECT_EQ(BucketSizeTuner::sizes_for(1000 * kMebibyte),
            (Sizes{0, kMebibyte, 4 * kMebibyte, 16 * kMebibyte, 64 * kMebibyte}));
}

}  // namespace
}  // namespace brigade::distribute
