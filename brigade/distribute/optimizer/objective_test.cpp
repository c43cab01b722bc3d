#include "brigade/distribute/optimizer/objective.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

/// The objective of each replica for a batch split into `sizes`, with losses from `loss_of`.
template <class LossOf>
std::vector<Objective> objectives(const std::vector<std::int64_t>& sizes, LossScale scale,
                                  Normalize normalize, const LossOf& loss_of) {
  MirroredStrategy strategy(cpus(static_cast<int>(sizes.size())));
  std::vector<std::int64_t> local_batches = sizes;
  const PerReplica<std::int64_t> batch(std::move(local_batches), ExampleCounts::of(sizes));
  return strategy
      .run(
          [&](ReplicaContext& context, std::int64_t size) {
            return objective_of(context, loss_of(size), scale, normalize);
          },
          batch)
      .values();
}

const auto kScalar = [](std::int64_t) { return at::ones({}); };
const auto kEach = [](std::int64_t size) { return at::ones({size, 2}); };

TEST(Objective, AScalarMeanIsWeightedByItsExamples) {
  const auto all = objectives({3, 1}, LossScale::kMeanOverExamples, Normalize::kNow, kScalar);
  EXPECT_EQ(all[0].weight(4), 0.75);
  EXPECT_EQ(all[1].weight(4), 0.25);
  EXPECT_EQ(all[0].global_examples, 4);
  EXPECT_EQ(all[0].local_examples, 3);
}

TEST(Objective, ValuesBeyondTheFirstDimensionAreAveraged) {
  const auto all = objectives({3, 1}, LossScale::kMeanOverExamples, Normalize::kNow, kEach);
  EXPECT_EQ(all[0].weight(4), 0.125);
  EXPECT_EQ(all[0].weight(), 0.5);
}

TEST(Objective, AnEmptyPerReplicaBatchHasNone) {
  for (const LossScale scale :
       {LossScale::kMeanOverExamples, LossScale::kSum, LossScale::kAlreadyScaled}) {
    const auto scalar = objectives({2, 0}, scale, Normalize::kLater, kScalar);
    const auto each = objectives({2, 0}, scale, Normalize::kLater, kEach);
    EXPECT_TRUE(scalar[0].loss.defined() && each[0].loss.defined());
    EXPECT_FALSE(scalar[1].loss.defined() || each[1].loss.defined());
  }
}

TEST(Objective, SumsAreTakenAsTheyAre) {
  const auto all = objectives({3, 1}, LossScale::kSum, Normalize::kNow, kEach);
  EXPECT_EQ(all[0].weight(), 1);
  EXPECT_FALSE(all[0].global_examples);
}

TEST(Objective, UnknownExamplesAreCountedNowOrLater) {
  MirroredStrategy strategy(cpus(2));
  strategy.run([](ReplicaContext& context) {
    const at::Tensor losses = at::ones({context.replica_id() + 1});
    const auto scale = LossScale::kMeanOverExamples;
    EXPECT_EQ(objective_of(context, losses, scale, Normalize::kNow).global_examples, 3);
    const Objective later = objective_of(context, losses, scale, Normalize::kLater);
    EXPECT_FALSE(later.global_examples);
    EXPECT_EQ(later.local_examples, context.replica_id() + 1);
    EXPECT_EQ(summed_over_replicas(context, later.local_examples), 3);
  });
}

TEST(Objective, AScalarMeanOfAnUnknownNumberCannotBeWeightedLater) {
  MirroredStrategy strategy(cpus(1));
  const auto code_with = [&](Normalize normalize) {
    return error_from([&] {
             strategy.run([&](ReplicaContext& context) {
               objective_of(context, at::ones({}), LossScale::kMeanOverExamples, normalize);
             });
           })
        .code();
  };
  EXPECT_EQ(code_with(Normalize::kLater), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_with(Normalize::kNow), ErrorCode::kInternal) << "one replica alone needs no count";
}

}  // namespace
}  // namespace brigade::distribute
