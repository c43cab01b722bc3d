#include "brigade/train/metric.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::train {
namespace {

using distribute::cpus;
using distribute::MirroredStrategy;
using distribute::PerReplica;
using distribute::ReplicaContext;

TEST(Mean, IsTheMeanOfAllElementsSeen) {
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

TEST(Mean, NothingIsSeenInAnEmptyBatch) {
  const Mean mean;
  mean.update_state(at::empty({0}));
  EXPECT_EQ(mean.count(), 0);
  EXPECT_EQ(mean.result(), 0);
}

TEST(SparseCategoricalAccuracy, IsTheShareOfHighestScoresAtTheLabel) {
  const SparseCategoricalAccuracy accuracy;
  accuracy.update_state(at::tensor({0, 1, 1}),
                        at::tensor({9.0, 1.0, 2.0, 3.0, 5.0, 4.0}).view({3, 2}));
  EXPECT_DOUBLE_EQ(accuracy.result(), 2.0 / 3);
  EXPECT_EQ(accuracy.count(), 3);
  accuracy.update_state(at::empty({0}, at::kLong), at::empty({0, 2}));
  EXPECT_EQ(accuracy.count(), 3);
}

TEST(SparseCategoricalAccuracy, RefusesOtherShapes) {
  const SparseCategoricalAccuracy accuracy;
  const auto code = [&](const at::Tensor& labels, const at::Tensor& predictions) {
    return distribute::error_from([&] { accuracy.update_state(labels, predictions); }).code();
  };
  EXPECT_EQ(code(at::empty({2}, at::kLong), at::empty({3, 2})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(at::empty({2, 1}, at::kLong), at::empty({2, 2})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(at::empty({2}, at::kLong), at::empty({2})), ErrorCode::kInvalidArgument);
}

TEST(Metric, AddsUpOverReplicasHoweverUneven) {
  MirroredStrategy strategy(cpus(3));
  const auto scope = strategy.scope();
  const Mean mean;
  const PerReplica<at::Tensor> values(
      {at::tensor({1.0, 2.0, 3.0}), at::tensor({10.0}), at::empty({0}, at::kDouble)});
  for (int round = 0; round < 2; ++round) {
    strategy.run([&](ReplicaContext&, const at::Tensor& share) { mean.update_state(share); },
                 values);
  }
  EXPECT_EQ(mean.result(), 4);
  EXPECT_EQ(mean.count(), 8);
  mean.reset_state();
  EXPECT_EQ(mean.count(), 0);
  EXPECT_EQ(mean.result(), 0);
}

TEST(Metric, MadeOutsideOfAScopeItIsRefusedInOtherReplicas) {
  MirroredStrategy strategy(cpus(2));
  const Mean mean;
  const Error error = distribute::error_from(
      [&] { strategy.run([&](ReplicaContext&) { mean.update_state(at::tensor(1.0)); }); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(distribute::says(error, "mean/total")) << error.what();
}

TEST(Metric, FindsAFreeName) {
  MirroredStrategy strategy(cpus(2));
  const auto scope = strategy.scope();
  const Mean first("loss");
  const Mean second("loss");
  EXPECT_EQ(first.name(), "loss");
  EXPECT_EQ(second.name(), "loss_1");
}

TEST(Metric, BuildsNoGraph) {
  const Mean mean;
  mean.update_state(at::tensor({1.0}).set_requires_grad(true) * 2);
  mean.update_state(at::tensor({4.0}).set_requires_grad(true) * 1);
  EXPECT_EQ(mean.result(), 3);
}

}  // namespace
}  // namespace brigade::train
