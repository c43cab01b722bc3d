// The members of Strategy that combine the replicas' values into one (cross_replica.cpp).
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

using comm::ReduceOp;

PerReplica<at::Tensor> per_replica(std::vector<at::Tensor> values) {
  return PerReplica<at::Tensor>(std::move(values));
}

/// [0, 1, 2, 3] | [4, 5]
PerReplica<at::Tensor> uneven(at::ScalarType dtype = at::kDouble) {
  return per_replica({at::arange(4, dtype), at::arange(4, 6, dtype)});
}

class CrossReplica : public ::testing::Test {
 protected:
  MirroredStrategy strategy_{cpus(2)};
};

TEST_F(CrossReplica, ReducingAnAxisIsExactForUnevenReplicas) {
  EXPECT_EQ(strategy_.reduce(ReduceOp::kSum, uneven(), 0).item<double>(), 15);
  EXPECT_EQ(strategy_.reduce(ReduceOp::kMean, uneven(), 0).item<double>(), 2.5);
  EXPECT_EQ(strategy_.reduce(ReduceOp::kMean, uneven(), -1).item<double>(), 2.5);
}

TEST_F(CrossReplica, TheMeanOfIntegersIsADouble) {
  const at::Tensor mean = strategy_.reduce(ReduceOp::kMean, uneven(at::kLong), 0);
  EXPECT_EQ(mean.scalar_type(), at::kDouble);
  EXPECT_EQ(mean.item<double>(), 2.5);
  EXPECT_EQ(strategy_.reduce(ReduceOp::kSum, uneven(at::kLong), 0).scalar_type(), at::kLong);
  const at::Tensor without_axis =
      strategy_.reduce(ReduceOp::kMean, per_replica({at::tensor({1, 2}), at::tensor({2, 2})}));
  EXPECT_TRUE(at::equal(without_axis, at::tensor({1.5, 2.0}, at::kDouble)));
}

TEST_F(CrossReplica, HalfIsAddedInFloat32AndRoundedOnce) {
  const auto large = per_replica({at::full({2}, 4e4, at::kHalf), at::full({2}, 4e4, at::kHalf)});
  for (const at::Tensor& mean :
       {strategy_.reduce(ReduceOp::kMean, large), strategy_.reduce(ReduceOp::kMean, large, 0)}) {
    EXPECT_EQ(mean.scalar_type(), at::kHalf);
    EXPECT_EQ(mean.max().item<double>(), 4e4);
  }
  const auto uneven_sums =
      per_replica({at::full({3}, 683.0, at::kHalf), at::full({1}, 1.0, at::kHalf)});
  EXPECT_EQ(strategy_.reduce(ReduceOp::kSum, uneven_sums, 0).item<double>(), 2050)
      << "2049 is none of half's numbers, so a replica's sum must not be rounded";
}

TEST_F(CrossReplica, WithoutAnAxisShapesMustBeEqual) {
  const Error error = error_from([&] { strategy_.reduce(ReduceOp::kSum, uneven()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "[4] and [2]")) << error.what();
}

TEST_F(CrossReplica, WithoutAnAxisEveryOperationWorks) {
  const auto values = per_replica({at::tensor({1.0, 8.0}), at::tensor({3.0, 2.0})});
  EXPECT_TRUE(at::equal(strategy_.reduce(ReduceOp::kSum, values), at::tensor({4.0, 10.0})));
  EXPECT_TRUE(at::equal(strategy_.reduce(ReduceOp::kMean, values), at::tensor({2.0, 5.0})));
  EXPECT_TRUE(at::equal(strategy_.reduce(ReduceOp::kMax, values), at::tensor({3.0, 8.0})));
  EXPECT_TRUE(at::equal(strategy_.reduce(ReduceOp::kMin, values), at::tensor({1.0, 2.0})));
}

TEST_F(CrossReplica, WithAnAxisOnlySumAndMeanAndNoScalars) {
  EXPECT_EQ(error_from([&] { strategy_.reduce(ReduceOp::kMax, uneven(), 0); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([&] { strategy_.reduce(ReduceOp::kSum, uneven(), 1); }).code(),
            ErrorCode::kInvalidArgument);
  const auto scalars = per_replica({at::scalar_tensor(1.0), at::scalar_tensor(2.0)});
  EXPECT_EQ(error_from([&] { strategy_.reduce(ReduceOp::kSum, scalars, 0); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(CrossReplica, APlainTensorHasAMeanAndNoSum) {
  const at::Tensor plain = at::tensor(4.0);
  EXPECT_TRUE(strategy_.reduce(ReduceOp::kMean, plain).is_same(plain));
  const Error error = error_from([&] { strategy_.reduce(ReduceOp::kSum, plain); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "2 replicas")) << error.what();
  EXPECT_TRUE(MirroredStrategy(cpus(1)).reduce(ReduceOp::kSum, plain).is_same(plain));
}

TEST_F(CrossReplica, AReplicaWithoutExamplesIsLeftOut) {
  const PerReplica<at::Tensor> losses({at::tensor(3.0), at::tensor(std::nan(""))},
                                      ExampleCounts::of({2, 0}));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin})
    EXPECT_EQ(strategy_.reduce(op, losses).item<double>(), 3) << comm::to_string(op);
  const PerReplica<at::Tensor> none({at::tensor(1.0), at::tensor(1.0)}, ExampleCounts::of({0, 0}));
  EXPECT_EQ(error_from([&] { strategy_.reduce(ReduceOp::kSum, none); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST_F(CrossReplica, MeansAreWeightedByTheirExamples) {
  const PerReplica<at::Tensor> means({at::tensor(1.0), at::tensor(4.0)}, ExampleCounts::of({2, 1}));
  EXPECT_DOUBLE_EQ(strategy_.reduce_mean_over_examples(means).item<double>(), 2.0);
  const PerReplica<at::Tensor> empty({at::tensor(1.0), at::tensor(std::nan(""))},
                                     ExampleCounts::of({2, 0}));
  EXPECT_EQ(strategy_.reduce_mean_over_examples(empty).item<double>(), 1.0);
  EXPECT_EQ(error_from([&] {
              strategy_.reduce_mean_over_examples(per_replica({at::tensor(1.0), at::tensor(1.0)}));
            }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST_F(CrossReplica, IsRefusedInAReplica) {
  const auto values = per_replica({at::tensor({1.0}), at::tensor({2.0})});
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"reduce", [&] { strategy_.reduce(ReduceOp::kSum, values); }},
      {"reduce", [&] { strategy_.reduce(ReduceOp::kSum, values, 0); }},
      {"reduce_mean_over_examples", [&] { strategy_.reduce_mean_over_examples(values); }},
      {"gather", [&] { strategy_.gather(values, 0); }}};
  for (const auto& [name, call] : calls) {
    const Error error = error_from([&] { strategy_.run([&](ReplicaContext&) { call(); }); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_NE(std::string(error.what()).find("Strategy::" + name + " was called inside a replica"),
              std::string::npos)
        << error.what();
  }
  strategy_.run([&](ReplicaContext& replica) {
    replica.merge_call(
        [&](Strategy& all) { EXPECT_EQ(all.reduce(ReduceOp::kSum, values).item<double>(), 3); });
  });
}

TEST_F(CrossReplica, AnUndefinedValueIsNamed) {
  const auto half = per_replica({at::tensor({1.0}), at::Tensor()});
  const Error error = error_from([&] { strategy_.reduce(ReduceOp::kSum, half); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("replica 1 is an undefined tensor"), std::string::npos);
}

TEST_F(CrossReplica, GatherConcatenatesUnevenParts) {
  const at::Tensor joined = strategy_.gather(
      per_replica({at::tensor({1, 2}).view({1, 2}), at::tensor({3, 4, 5, 6}).view({2, 2})}), 0);
  EXPECT_TRUE(at::equal(joined, at::tensor({1, 2, 3, 4, 5, 6}).view({3, 2})));
  const Error scalars = error_from([&] {
    strategy_.gather(per_replica({at::scalar_tensor(1.0), at::scalar_tensor(2.0)}), 0);
  });
  EXPECT_EQ(scalars.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      error_from([&] {
        strategy_.gather(per_replica({at::tensor({1.0}), at::tensor({1.0, 2.0}).view({1, 2})}), 0);
      }).code(),
      ErrorCode::kInvalidArgument);
  // Sizes that differ on another axis are refused with this library's message, not libtorch's.
  EXPECT_EQ(
      error_from([&] {
        strategy_.gather(
            per_replica({at::tensor({1.0, 2.0}).view({1, 2}), at::tensor({1.0}).view({1, 1})}), 0);
      }).code(),
      ErrorCode::kInvalidArgument);
}

TEST_F(CrossReplica, RecordsNoGradients) {
  const auto values = per_replica({at::tensor({1.0}).set_requires_grad(true), at::tensor({1.0})});
  EXPECT_FALSE(strategy_.reduce(ReduceOp::kSum, values).requires_grad());
  EXPECT_FALSE(strategy_.reduce(ReduceOp::kSum, values, 0).requires_grad());
  EXPECT_FALSE(strategy_.gather(values, 0).requires_grad());
}

TEST_F(CrossReplica, LocalResultsAreTheValuesInOrder) {
  EXPECT_EQ(strategy_.local_results(PerReplica<int>({7, 8})), std::vector<int>({7, 8}));
}

}  // namespace
}  // namespace brigade::distribute
