#include "brigade/metrics/precision_recall.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

auto near(double value) {
  return DoubleNear(value, kMeasured);
}

TEST(PrecisionAndRecall, MatchKeras) {
  const MeasuredBinary data;
  EXPECT_THAT(result_of(Precision(), data.labels, data.predictions), near(0.71875));
  EXPECT_THAT(result_of(Precision(), data.labels, data.predictions, data.weights),
              near(0.7528273463249207));
  EXPECT_THAT(result_of(Recall(), data.labels, data.predictions), near(0.8214285969734192));
  EXPECT_THAT(result_of(Recall(), data.labels, data.predictions, data.weights),
              near(0.9138409495353699));
}

TEST(PrecisionAndRecall, HaveAResultForEachThresholdInOrder) {
  const MeasuredBinary data;
  const PrecisionRecallOptions options{.thresholds = {0.7, 0.2, 0.9}};
  const Precision precision(options);
  precision.update_state(data.labels, data.predictions);
  EXPECT_THAT(precision.results(),
              ElementsAre(near(0.7272727489471436), near(0.5490196347236633), near(0.75)));
  const Recall recall(options);
  recall.update_state(data.labels, data.predictions);
  EXPECT_THAT(recall.results(),
              ElementsAre(near(0.5714285969734192), near(1.0), near(0.2142857164144516)));
  EXPECT_EQ(distribute::error_from([&] { recall.result(); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(PrecisionAndRecall, OfTheTopKAndOfOneClassMatchKeras) {
  const MeasuredClasses data;
  const auto precision = [&](const PrecisionRecallOptions& options) {
    return result_of(Precision(options), data.one_hot, data.predictions);
  };
  const auto recall = [&](const PrecisionRecallOptions& options) {
    return result_of(Recall(options), data.one_hot, data.predictions);
  };
  EXPECT_THAT(precision({.top_k = 2}), near(0.2666666805744171));
  EXPECT_THAT(recall({.top_k = 2}), near(0.5333333611488342));
  EXPECT_THAT(precision({.top_k = 2, .class_id = 1}), near(0.6000000238418579));
  EXPECT_THAT(recall({.class_id = 1}), near(0.75));
  EXPECT_THAT(result_of(Recall({.class_id = 1}), data.one_hot, data.predictions, data.weights),
              near(0.802357017993927));
  EXPECT_THAT(precision({.thresholds = {0.6}, .top_k = 3}), near(0.2916666567325592));
}

TEST(Precision, CountsPredictionsAboveTheThresholdOnly) {
  const Precision precision;
  precision.update_state(at::tensor({1, 0}), at::tensor({0.6F, 0.5F}));
  EXPECT_EQ(precision.result(), 1);
  precision.reset_state();
  EXPECT_EQ(precision.result(), 0) << "nothing positive, as in Keras";
}

TEST(PrecisionAndRecall, RefuseInvalidOptions) {
  const auto code = [](const PrecisionRecallOptions& options) {
    return distribute::error_from([&] { Precision precision(options); }).code();
  };
  EXPECT_EQ(code({.thresholds = {-0.5}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.top_k = 0}), ErrorCode::kInvalidArgument);
  const MeasuredClasses data;
  EXPECT_EQ(distribute::error_from([&] {
              Recall({.class_id = 4}).update_state(data.one_hot, data.predictions);
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::metrics
