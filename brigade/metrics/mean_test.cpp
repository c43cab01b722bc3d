#include "brigade/metrics/mean.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

TEST(Mean, IsTheMeanOfAllElements) {
  const Mean mean;
  EXPECT_EQ(mean.result(), 0) << "of nothing, as in Keras";
  mean.update_state(at::tensor({1.0F, 2.0F}));
  mean.update_state(at::tensor(6.0F));
  EXPECT_EQ(mean.result(), 3);
  EXPECT_EQ(mean.count(), 3);
}

TEST(Mean, WeightsCountAndAreBroadcast) {
  const Mean mean;
  mean.update_state(at::tensor({1.0, 4.0}), at::tensor({3.0, 1.0}));
  EXPECT_EQ(mean.result(), 7.0 / 4);
  EXPECT_EQ(mean.count(), 4);
  mean.reset_state();
  mean.update_state(at::tensor({1.0, 5.0}), at::tensor(2.0));
  EXPECT_EQ(mean.result(), 3);
  EXPECT_EQ(mean.count(), 4);
}

TEST(Mean, IsExactForManySmallValues) {
  const Mean mean;  // in float32 the sum would stop at 2^24
  mean.update_state(at::full({1 << 12, 1 << 12}, 1.0F));
  mean.update_state(at::full({1 << 12}, 1.0F));
  EXPECT_EQ(mean.count(), (1 << 24) + (1 << 12));
  EXPECT_EQ(mean.result(), 1);
}

TEST(Mean, IgnoresAnEmptyBatch) {
  const Mean mean;
  mean.update_state(at::empty({0}));
  EXPECT_EQ(mean.count(), 0);
  EXPECT_EQ(mean.result(), 0);
}

TEST(Mean, WeightsOfExamplesWithSeveralValuesMatchKeras) {
  const MeasuredClasses data;
  const Mean mean;
  mean.update_state(data.predictions, data.weights);
  EXPECT_NEAR(mean.result(), 0.5316256284713745, kMeasured);
}

TEST(Sum, MatchesKeras) {
  const MeasuredClasses data;
  const Sum sum;
  sum.update_state(data.predictions);
  EXPECT_NEAR(sum.result(), 31.85629653930664, 1e-5);
  sum.reset_state();
  sum.update_state(data.predictions, data.weights);
  EXPECT_NEAR(sum.result(), 13.651896476745605, 1e-5);
}

}  // namespace
}  // namespace brigade::metrics
