#include "brigade/metrics/metric.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/state_json.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/metrics/auc.h"
#include "brigade/metrics/mean.h"
#include "brigade/metrics/testing/measured_data.h"

namespace brigade::metrics {
namespace {

using distribute::cpus;
using distribute::MirroredStrategy;
using distribute::PerReplica;
using distribute::ReplicaContext;

TEST(Metric, AddsUpOverUnevenReplicas) {
  MirroredStrategy strategy(cpus(3));
  const auto scope = strategy.scope();
  const Mean mean;
  const PerReplica<at::Tensor> values(
      {at::tensor({1.0, 2.0, 3.0}), at::tensor({10.0}), at::empty({0}, at::kDouble)});
  for (int i = 0; i < 2; ++i) {
    strategy.run([&](ReplicaContext&, const at::Tensor& batch) { mean.update_state(batch); },
                 values);
  }
  EXPECT_EQ(mean.result(), 4);
  EXPECT_EQ(mean.count(), 8);
  mean.reset_state();
  EXPECT_EQ(mean.count(), 0);
  EXPECT_EQ(mean.result(), 0);
}

TEST(Metric, CreatedOutsideOfAScopeIsRefusedInOtherReplicas) {
  MirroredStrategy strategy(cpus(2));
  const Mean mean;
  const Error error = distribute::error_from(
      [&] { strategy.run([&](ReplicaContext&) { mean.update_state(at::tensor(1.0)); }); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(distribute::mentions(error, "mean/total")) << error.what();
}

TEST(Metric, FindsAFreeName) {
  MirroredStrategy strategy(cpus(2));
  const auto scope = strategy.scope();
  const Mean first("loss");
  const Mean second("loss");
  EXPECT_EQ(first.name(), "loss");
  EXPECT_EQ(second.name(), "loss_1");
  EXPECT_EQ(second.variables()[1].name(), "loss_1/count");
}

TEST(Metric, BuildsNoGraph) {
  const Mean mean;
  mean.update_state(at::tensor({1.0}).set_requires_grad(true) * 2);
  mean.update_state(at::tensor({4.0}).set_requires_grad(true) * 1);
  EXPECT_EQ(mean.result(), 3);
  const Auc auc;
  auc.update_state(at::tensor({0, 1}), at::tensor({0.1F, 0.9F}).set_requires_grad(true) * 1);
  EXPECT_NEAR(auc.result(), 1, 1e-12);
}

TEST(Metric, MergesSumsOfOtherProcesses) {
  const MeasuredBinary data;
  const Auc whole;
  whole.update_state(data.labels, data.predictions, data.weights);
  const Auc first;
  first.update_state(data.labels.narrow(0, 0, 25), data.predictions.narrow(0, 0, 25),
                     data.weights.narrow(0, 0, 25));
  MirroredStrategy strategy(cpus(3));
  const auto scope = strategy.scope();
  const Auc merged;
  merged.update_state(data.labels.narrow(0, 25, 35), data.predictions.narrow(0, 25, 35),
                      data.weights.narrow(0, 25, 35));
  merged.merge(first.sums());
  EXPECT_NEAR(merged.result(), whole.result(), 1e-12);
  const Mean mean;
  const auto code = [&](const std::vector<at::Tensor>& sums) {
    return distribute::error_from([&] { merged.merge(sums); }).code();
  };
  EXPECT_EQ(code(mean.sums()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({}), ErrorCode::kInvalidArgument);
  EXPECT_NEAR(merged.result(), whole.result(), 1e-12) << "nothing has changed";
}

TEST(Metric, RestoresItsStateUnderAnyNumberOfReplicas) {
  const MeasuredBinary data;
  const Auc whole;
  whole.update_state(data.labels, data.predictions, data.weights);
  const io::StateJson written = io::to_json(whole.save());
  MirroredStrategy strategy(cpus(3));
  const auto scope = strategy.scope();
  const Auc resumed;
  resumed.restore(io::from_json(written.json, written.arrays));
  EXPECT_EQ(resumed.result(), whole.result());
  EXPECT_EQ(resumed.save(), whole.save());
  resumed.reset_state();
  EXPECT_EQ(resumed.result(), 0);
}

TEST(Metric, RefusesTheStateOfAnotherMetric) {
  const Mean mean;
  mean.update_state(at::tensor({2.0}));
  const io::StateTree other = Auc({.num_thresholds = 3}).save();
  EXPECT_EQ(distribute::error_from([&] { mean.restore(other); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(distribute::error_from([&] { Auc().restore(other); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(mean.result(), 2);
}

TEST(PredictionMetric, IgnoresAnEmptyBatch) {
  const Accuracy accuracy;
  accuracy.update_state(at::empty({0}, at::kLong), at::empty({0, 10}));
  accuracy.update_state(at::empty({0, 10}), at::empty({0, 10}), at::empty({0}));
  EXPECT_EQ(accuracy.count(), 0);
  const Auc auc;
  auc.update_state(at::empty({0}), at::empty({0}));
  EXPECT_EQ(auc.result(), 0);
}

TEST(PredictionMetric, RefusesWeightsOfAnotherShape) {
  const MeasuredClasses data;
  const Error error = distribute::error_from([&] {
    Accuracy().update_state(data.labels, data.predictions, at::tensor({1.0, 2.0}));
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(distribute::mentions(error, "weights have shape [2]")) << error.what();
}

}  // namespace
}  // namespace brigade::metrics
