#include "brigade/metrics/regression.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

template <class Kind>
void expect_measured(double plain, double weighted) {
  const MeasuredClasses data;
  EXPECT_NEAR(result_of(Kind(), data.others, data.predictions), plain, kMeasured);
  EXPECT_NEAR(result_of(Kind(), data.others, data.predictions, data.weights), weighted, kMeasured);
}

TEST(Regression, MatchesKeras) {
  expect_measured<MeanSquaredError>(0.18825632333755493, 0.16185609996318817);
  expect_measured<RootMeanSquaredError>(0.4338851571083069, 0.4023134410381317);
  expect_measured<MeanAbsoluteError>(0.35856708884239197, 0.32983237504959106);
  expect_measured<CosineSimilarity>(0.7463042140007019, 0.7748196721076965);
}

TEST(CosineSimilarity, OfAVectorOfZerosIsZero) {
  EXPECT_NEAR(result_of(CosineSimilarity(), at::tensor({0.0, 0.0, 1.0, 1.0}).view({2, 2}),
                        at::tensor({1.0, 0.0, 1.0, 1.0}).view({2, 2})),
              0.4999999701976776, kMeasured);
}

TEST(MeanSquaredError, CountsExamplesNotBatches) {
  const MeanSquaredError error;
  error.update_state(at::tensor({0.0, 0.0, 0.0}), at::tensor({1.0, 1.0, 1.0}));
  error.update_state(at::tensor({0.0}), at::tensor({3.0}).view({1, 1}));
  EXPECT_EQ(error.result(), 3);
  EXPECT_EQ(error.count(), 4);
}

TEST(Regression, RefusesShapesThatNeedBroadcasting) {
  const Error error = distribute::error_from([] {
    MeanAbsoluteError().update_state(at::tensor({0.0, 0.0}),
                                     at::tensor({1.0, 1.0, 1.0, 1.0}).view({2, 2}));
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(distribute::mentions(error, "MeanAbsoluteError: labels have shape [2]"))
      << error.what();
}

}  // namespace
}  // namespace brigade::metrics
