#include "brigade/metrics/auc.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

using distribute::cpus;
using distribute::MirroredStrategy;
using distribute::PerReplica;
using distribute::ReplicaContext;

TEST(Auc, MatchesKerasForEveryCurveAndSummation) {
  struct Case {
    AucCurve curve;
    AucSummation summation;
    double plain, weighted;
  };
  const MeasuredBinary data;
  for (const Case& each : {
           Case{AucCurve::kRoc, AucSummation::kInterpolation, 0.7756696939468384,
                0.8308104276657104},
           Case{AucCurve::kRoc, AucSummation::kMinoring, 0.7734375, 0.8294727802276611},
           Case{AucCurve::kRoc, AucSummation::kMajoring, 0.7779017686843872, 0.8321479558944702},
           Case{AucCurve::kPr, AucSummation::kInterpolation, 0.6581577062606812,
                0.7700629234313965},
           Case{AucCurve::kPr, AucSummation::kMinoring, 0.6076557040214539, 0.6779797077178955},
           Case{AucCurve::kPr, AucSummation::kMajoring, 0.6890310645103455, 0.804672122001648},
       }) {
    const AucOptions options{.curve = each.curve, .summation = each.summation};
    EXPECT_NEAR(result_of(Auc(options), data.labels, data.predictions), each.plain, kMeasured);
    EXPECT_NEAR(result_of(Auc(options), data.labels, data.predictions, data.weights), each.weighted,
                kMeasured);
  }
}

TEST(Auc, MatchesKerasForOtherThresholdsAndLogits) {
  const MeasuredBinary data;
  const auto of = [&](const AucOptions& options) {
    return result_of(Auc(options), data.labels, data.predictions);
  };
  EXPECT_NEAR(of({.num_thresholds = 10}), 0.7773436903953552, kMeasured);
  EXPECT_NEAR(of({.num_thresholds = 10, .curve = AucCurve::kPr}), 0.689895749092102, kMeasured);
  EXPECT_NEAR(of({.thresholds = {0.3, 0.35, 0.9}}), 0.7243303060531616, kMeasured);
  EXPECT_NEAR(of({.curve = AucCurve::kPr, .thresholds = {0.9, 0.3, 0.35}}), 0.6557396054267883,
              kMeasured);
  EXPECT_NEAR(result_of(Auc({.from_logits = true}), data.labels, (data.predictions - 0.5) * 4),
              0.7751115560531616, kMeasured);
}

TEST(Auc, TreatsPredictionsAtThresholdsAsKeras) {
  const at::Tensor labels = at::tensor({0, 1, 0, 1});
  EXPECT_EQ(result_of(Auc({.num_thresholds = 3}), labels, at::tensor({0.0, 0.5, 0.5, 1.0})), 0.75);
  EXPECT_EQ(result_of(Auc({.num_thresholds = 3}), labels, at::tensor({-7.0, 0.5, 0.5, 7.0})), 0.75);
  EXPECT_EQ(result_of(Auc(), at::tensor({1, 1}), at::tensor({0.2, 0.3})), 0) << "no negatives";
}

TEST(Auc, IsTheSameOverUnevenReplicas) {
  const MeasuredBinary data;
  MirroredStrategy strategy(cpus(3));
  const auto scope = strategy.scope();
  const Auc whole;
  const Auc split;
  const auto split_up = [](const at::Tensor& t) {
    return PerReplica<at::Tensor>({t.narrow(0, 0, 41), t.narrow(0, 41, 19), t.narrow(0, 0, 0)});
  };
  whole.update_state(data.labels, data.predictions);
  strategy.run([&](ReplicaContext&, const at::Tensor& labels,
                   const at::Tensor& predictions) { split.update_state(labels, predictions); },
               split_up(data.labels), split_up(data.predictions));
  EXPECT_EQ(split.result(), whole.result());
  EXPECT_EQ(split.name(), "auc_1");
}

TEST(Auc, RefusesInvalidThresholds) {
  const auto code = [](const AucOptions& options) {
    return distribute::error_from([&] { Auc auc(options); }).code();
  };
  EXPECT_EQ(code({.num_thresholds = 1}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.thresholds = {0.5, 1.5}}), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::metrics
