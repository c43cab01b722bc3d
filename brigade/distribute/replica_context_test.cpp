#include "brigade/distribute/replica_context.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

using comm::ReduceOp;

TEST(ReplicaContext, KnowsItsIndexAndDevice) {
  MirroredStrategy strategy(cpus(3));
  EXPECT_TRUE(in_cross_replica_context());
  EXPECT_EQ(current_replica_context(), nullptr);
  for (std::uint64_t step = 0; step < 2; ++step) {
    const auto ids = strategy.run([&](ReplicaContext& context) {
      EXPECT_EQ(current_replica_context(), &context);
      EXPECT_FALSE(in_cross_replica_context());
      EXPECT_EQ(&context.strategy(), &strategy);
      EXPECT_EQ(context.num_replicas_in_sync(), 3);
      EXPECT_EQ(context.step(), step);
      EXPECT_EQ(context.device().logical_index, context.replica_id());
      EXPECT_FALSE(context.local_examples().has_value());
      EXPECT_FALSE(context.global_examples().has_value());
      return context.replica_id();
    });
    EXPECT_EQ(ids.values(), std::vector<int>({0, 1, 2}));
  }
  EXPECT_EQ(current_replica_context(), nullptr);
}

TEST(ReplicaContext, KnowsTheExamplesOfItsBatch) {
  MirroredStrategy strategy(cpus(2));
  const PerReplica<int> batch({0, 0}, ExampleCounts::of({3, 2}));
  const auto locals = strategy.run(
      [](ReplicaContext& context, int) {
        EXPECT_EQ(context.global_examples(), 5);
        return *context.local_examples();
      },
      batch);
  EXPECT_EQ(locals.values(), std::vector<std::int64_t>({3, 2}));
}

TEST(ReplicaContext, AllReduceIsDifferentiable) {
  MirroredStrategy strategy(cpus(2));
  const auto gradients = strategy.run([](ReplicaContext& context) {
    const at::Tensor x =
        at::full({}, context.replica_id() + 1.0, at::kDouble).set_requires_grad(true);
    const at::Tensor y = 3 * context.all_reduce(ReduceOp::kSum, x);
    EXPECT_EQ(y.item<double>(), 9);
    y.backward();
    return x.grad().item<double>();
  });
  EXPECT_EQ(gradients.values(), std::vector<double>({6, 6}));
}

TEST(ReplicaContext, AllGatherConcatenates) {
  MirroredStrategy strategy(cpus(2));
  strategy.run([](ReplicaContext& context) {
    const at::Tensor mine = at::full({context.replica_id() + 1, 2}, 1.0);
    EXPECT_EQ(context.all_gather(mine, 0).sizes(), at::IntArrayRef({3, 2}));
  });
}

TEST(ReplicaContext, AMergeCallRunsOnceInTheCrossReplicaContext) {
  MirroredStrategy strategy(cpus(3));
  std::atomic<int> calls = 0;
  std::vector<int> before(3, 0);  // plain memory, ordered by the call
  strategy.run([&](ReplicaContext& context) {
    before[context.replica_id()] = 1;
    context.merge_call([&](Strategy& merged) {
      ++calls;
      EXPECT_EQ(&merged, &strategy);
      EXPECT_TRUE(in_cross_replica_context());
      EXPECT_EQ(before, std::vector<int>({1, 1, 1}));
      before.assign(3, 7);
    });
    EXPECT_FALSE(in_cross_replica_context());
    EXPECT_EQ(before[context.replica_id()], 7);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ReplicaContext, AnExceptionInAMergeCallFailsTheRun) {
  MirroredStrategy strategy(cpus(2));
  const Error error = error_from([&] {
    strategy.run([](ReplicaContext& context) {
      context.merge_call([](Strategy&) { throw Error(ErrorCode::kDataLoss, "in the middle"); });
      FAIL() << "no replica may continue";
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "in the middle"));
}

TEST(ReplicaContext, UnequalCountsOfCallsAreAnErrorThatNamesTheReplica) {
  MirroredStrategy strategy(cpus(2));
  const auto merges = error_from([&] {
    strategy.run([](ReplicaContext& context) {
      for (int call = 0; call <= context.replica_id(); ++call) context.merge_call([](Strategy&) {});
    });
  });
  EXPECT_EQ(merges.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(merges, "replica 0 has already returned")) << merges.what();
  const auto reductions = error_from([&] {
    strategy.run([](ReplicaContext& context) {
      if (context.replica_id() == 0) context.all_reduce(ReduceOp::kSum, at::full({1}, 1.0));
    });
  });
  EXPECT_EQ(reductions.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(reductions, "replica 1 has already returned")) << reductions.what();
}

TEST(ReplicaContext, DifferentCallsAreAnErrorThatNamesBoth) {
  MirroredStrategy strategy(cpus(2));
  const auto error = error_from([&] {
    strategy.run([](ReplicaContext& context) {
      if (context.replica_id() == 0) return context.barrier();
      context.all_reduce(ReduceOp::kSum, at::full({1}, 1.0));
    });
  });
  EXPECT_TRUE(mentions(error, "barrier") && mentions(error, "all_reduce(sum)")) << error.what();
  EXPECT_NO_THROW(strategy.run([](ReplicaContext& context) { context.barrier(); }));
}

}  // namespace
}  // namespace brigade::distribute
