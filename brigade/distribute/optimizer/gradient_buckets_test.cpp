#include "brigade/distribute/optimizer/gradient_buckets.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

using GradientList = std::vector<at::Tensor>;

const comm::ProcessLayout kOneReplica{.replicas = {1}};
const comm::ProcessLayout kTwoReplicas{.replicas = {2}};

/// An optimizer of three variables of two dtypes, the second one frozen, in a single process.
class GradientBucketsTest : public ::testing::Test {
 protected:
  GradientBucketsTest()
      : workers_(comm::make_process_communicator(
            cluster::testing::make_in_memory_memberships(1).front())) {
    for (const auto& [name, size, dtype] :
         {std::tuple("a", 130, at::kFloat), {"frozen", 3, at::kFloat}, {"b", 5, at::kDouble}}) {
      variables_.push_back(store_.create({.name = name, .initial = at::full({size}, 0.0, dtype)}));
    }
    state_ = std::make_unique<optim::OptimizerState>(
        optim::Sgd{}.rule(), variables_,
        std::vector<optim::ParameterGroup>{{.names = {"frozen"}, .frozen = true}});
  }

  std::size_t index_of(const std::string& name) const {
    for (std::size_t i = 0; i < state_->variables().size(); ++i) {
      if (state_->variables()[i].name() == name) return i;
    }
    return 99;
  }

  static void reduce(GradientBuckets& buffers) {
    for (std::size_t bucket = 0; bucket < buffers.num_buckets(); ++bucket) buffers.reduce(bucket);
  }

  std::vector<at::Tensor> sums_of(const std::vector<GradientList>& replicas, std::int64_t bytes) {
    GradientBuckets buffers(*state_, workers_, {.replicas = {static_cast<int>(replicas.size())}},
                            bytes);
    std::vector<std::span<const at::Tensor>> parts(replicas.begin(), replicas.end());
    for (int shard = 0; shard < 3; ++shard) buffers.fill(parts, shard, 3);
    reduce(buffers);
    std::vector<at::Tensor> sums = buffers.sums();
    for (at::Tensor& sum : sums) {
      if (sum.defined()) sum = sum.clone();
    }
    return sums;
  }

  variables::VariableStore store_{variables::VariableStoreOptions{}};
  std::vector<variables::Variable> variables_;
  std::unique_ptr<optim::OptimizerState> state_;
  std::shared_ptr<comm::ProcessCommunicator> workers_;
};

TEST_F(GradientBucketsTest, TheReplicasGradientsAreAdded) {
  std::vector<GradientList> replicas(2, GradientList(3));
  for (std::size_t replica = 0; replica < 2; ++replica) {
    replicas[replica][index_of("a")] = at::arange(130, at::kFloat) * (1.0 + replica);
    replicas[replica][index_of("b")] = at::arange(5, at::kDouble);
  }
  for (const std::int64_t bytes : {0, 8, 100}) {
    const auto sums = sums_of(replicas, bytes);
    EXPECT_TRUE(sums[index_of("a")].equal(at::arange(130, at::kFloat) * 3));
    EXPECT_TRUE(sums[index_of("b")].equal(at::arange(5, at::kDouble) * 2));
    EXPECT_FALSE(sums[index_of("frozen")].defined());
  }
}

TEST_F(GradientBucketsTest, HalfIsSentAsFloat32AndOnlyTheGlobalSumIsRounded) {
  variables::VariableStore store{variables::VariableStoreOptions{}};
  variables_ = {store.create({.name = "h", .initial = at::full({4}, 0.0, at::kHalf)}),
                store.create({.name = "f", .initial = at::full({4}, 0.0F)})};
  state_ = std::make_unique<optim::OptimizerState>(optim::Sgd{}.rule(), variables_,
                                                   std::span<const optim::ParameterGroup>());
  const std::size_t half = index_of("h"), full = index_of("f");
  std::vector<GradientList> replicas(2, GradientList(2));
  for (const double value : {2048.0, 1.0}) {
    GradientList& of_replica = replicas[value == 1.0 ? 1 : 0];
    of_replica[half] = at::full({4}, value, at::kHalf);
    of_replica[full] = at::full({4}, value, at::kFloat);
  }
  GradientBuckets buffers(*state_, workers_, kTwoReplicas, 0);
  EXPECT_EQ(buffers.num_buckets(), 1u);
  EXPECT_EQ(buffers.bytes(), (4 + 4 + 2 + 17) * 4) << "a process's 2049 is not rounded";
  const auto sums = sums_of(replicas, 0);
  EXPECT_TRUE(sums[half].equal(at::full({4}, 2048.0, at::kHalf)));
  EXPECT_EQ(sums[half].scalar_type(), at::kHalf);
  EXPECT_TRUE(sums[full].equal(at::full({4}, 2049.0F)));
}

TEST_F(GradientBucketsTest, AVariableWithoutAnyGradientHasNoSum) {
  std::vector<GradientList> replicas(2, GradientList(3));
  replicas[1][index_of("b")] = at::arange(5, at::kDouble);
  const auto sums = sums_of(replicas, 0);
  EXPECT_FALSE(sums[index_of("a")].defined());
  EXPECT_TRUE(sums[index_of("b")].equal(at::arange(5, at::kDouble)));
}

TEST_F(GradientBucketsTest, AStepDoesNotRememberTheOneBefore) {
  GradientBuckets buffers(*state_, workers_, kOneReplica, 0);
  GradientList first(3), second(3);
  first[index_of("a")] = at::full({130}, 7.0, at::kFloat);
  second[index_of("b")] = at::full({5}, 1.0, at::kDouble);
  for (const GradientList* gradients : {&first, &second}) {
    const std::span<const at::Tensor> part(*gradients);
    buffers.fill({&part, 1}, 0, 1);
    reduce(buffers);
  }
  EXPECT_FALSE(buffers.sums()[index_of("a")].defined());
  EXPECT_TRUE(buffers.sums()[index_of("b")].defined());
}

TEST_F(GradientBucketsTest, BucketsHaveWholeVariablesAndEndWithThePresenceNumbers) {
  GradientBuckets buffers(*state_, workers_, kTwoReplicas, 0);
  const auto bucket_of = [&](const std::string& name) {
    return buffers.bucket_of()[index_of(name)];
  };
  // One per dtype; the last has the first variable, whichever that is.
  EXPECT_EQ(buffers.num_buckets(), 2u);
  EXPECT_EQ(bucket_of("frozen"), std::nullopt);
  EXPECT_NE(bucket_of("a"), bucket_of("b"));
  EXPECT_EQ(buffers.bytes(), 130 * 4 + 5 * 8 + (3 + 17) * (index_of("a") > index_of("b") ? 4 : 8));
}

/// The sums of five replicas that are spread over processes in this way. Their gradients have
/// magnitudes so different that almost every order of additions has its own sum; replica 1 has none
/// of the first variable.
std::vector<at::Tensor> sums_in_layout(const std::vector<int>& replicas, std::int64_t bytes,
                                       bool during_backward) {
  std::vector<at::Tensor> result;
  comm::run_processes_successfully(
      static_cast<int>(replicas.size()), {}, [&](comm::ProcessCommunicator& communicator) {
        variables::VariableStore store{variables::VariableStoreOptions{}};
        const std::vector<variables::Variable> variables = {
            store.create({.name = "v", .initial = at::full({70'003}, 0.0F)}),
            store.create({.name = "w", .initial = at::full({17}, 0.0F)})};
        const optim::OptimizerState state(optim::Sgd{}.rule(), variables,
                                          std::span<const optim::ParameterGroup>());
        const comm::ProcessLayout layout{.process = communicator.rank(), .replicas = replicas};
        // The test's thread owns the communicator.
        GradientBuckets buffers(state, {std::shared_ptr<void>(), &communicator}, layout, bytes);
        std::vector<GradientList> gradients;
        for (int i = 0; i < replicas[static_cast<std::size_t>(layout.process)]; ++i) {
          const int replica = layout.first_replica() + i;
          GradientList& own = gradients.emplace_back(2);
          for (std::size_t v = 0; v < 2; ++v) {
            if (replica == 1 && v == 0) continue;
            own[v] = at::arange(state.variables()[v].numel(), at::kDouble)
                         .mul(0.37 + replica)
                         .sin()
                         .mul(replica % 2 == 0 ? 1.0 : 1e5)
                         .to(at::kFloat);
          }
        }
        std::vector<bool> is_filled(2, false);
        if (during_backward) {
          GradientList parts;
          for (const GradientList& own : gradients) parts.push_back(own[1]);
          buffers.fill_variable(1, parts);
          is_filled[1] = true;
        }
        const std::vector<std::span<const at::Tensor>> parts(gradients.begin(), gradients.end());
        for (int shard = 0; shard < 3; ++shard) buffers.fill(parts, shard, 3, is_filled);
        for (std::size_t bucket = 0; bucket < buffers.num_buckets(); ++bucket)
          buffers.reduce(bucket);
        if (communicator.rank() != 0) return;
        for (const at::Tensor& sum : buffers.sums()) result.push_back(sum.clone());
      });
  return result;
}

TEST(GradientBuckets, BitsDoNotDependOnHowReplicasAreSpreadOverProcesses) {
  const std::vector<at::Tensor> expected = sums_in_layout({5}, 0, false);
  for (const auto& replicas :
       std::vector<std::vector<int>>{{4, 1}, {2, 3}, {3, 2}, {1, 4}, {1, 3, 1}, {2, 1, 1, 1}}) {
    for (const std::int64_t bytes : {0, 1}) {
      const std::vector<at::Tensor> sums = sums_in_layout(replicas, bytes, bytes == 1);
      ASSERT_EQ(sums.size(), 2u);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(sums[i].equal(expected[i])) << ::testing::PrintToString(replicas) << i;
    }
  }
}

/// Four variables of one dtype, of 10 elements each.
class BucketOrderTest : public GradientBucketsTest {
 protected:
  BucketOrderTest() {
    variables::VariableStore store{variables::VariableStoreOptions{}};
    variables_.clear();
    for (const char* name : {"w0", "w1", "w2", "w3"})
      variables_.push_back(store.create({.name = name, .initial = at::full({10}, 0.0F)}));
    state_ = std::make_unique<optim::OptimizerState>(optim::Sgd{}.rule(), variables_,
                                                     std::span<const optim::ParameterGroup>());
  }
};

TEST_F(BucketOrderTest, LaterVariablesAreReducedFirst) {
  using BucketOf = std::vector<std::optional<std::size_t>>;
  GradientBuckets buffers(*state_, workers_, kTwoReplicas, 1);
  EXPECT_EQ(buffers.bucket_of(), (BucketOf{3, 2, 1, 0}));
  buffers.partition(40);
  EXPECT_EQ(buffers.bucket_of(), (BucketOf{3, 2, 1, 0}));
  buffers.partition(41);
  EXPECT_EQ(buffers.num_buckets(), 2u);
  EXPECT_EQ(buffers.bucket_of(), (BucketOf{1, 1, 0, 0}));
  buffers.partition(81);
  EXPECT_EQ(buffers.bucket_of(), (BucketOf{1, 0, 0, 0}));
  buffers.partition(0);
  EXPECT_EQ(buffers.num_buckets(), 1u);
}

TEST_F(BucketOrderTest, VariablesFilledInDuringBackwardAreNotFilledInAgain) {
  GradientBuckets buffers(*state_, workers_, kTwoReplicas, 1);
  std::vector<GradientList> replicas(2, GradientList(4));
  for (std::size_t i = 0; i < 3; ++i) {
    replicas[0][i] = at::full({10}, static_cast<double>(i + 1), at::kFloat);
    replicas[1][i] = at::full({10}, 0.5F);
  }
  const std::vector<at::Tensor> delivered = {replicas[0][2], replicas[1][2]};
  buffers.fill_variable(2, delivered);
  buffers.reduce(0);
  buffers.reduce(1);
  replicas[0][2] = at::full({10}, -1.0F);  // may be anything by now
  const std::vector<std::span<const at::Tensor>> parts(replicas.begin(), replicas.end());
  for (int shard = 0; shard < 2; ++shard)
    buffers.fill(parts, shard, 2, {false, false, true, false});
  for (std::size_t bucket = 2; bucket < 4; ++bucket) buffers.reduce(bucket);
  const auto sums = buffers.sums();
  EXPECT_TRUE(sums[0].equal(at::full({10}, 1.5F)));
  EXPECT_TRUE(sums[1].equal(at::full({10}, 2.5F)));
  EXPECT_TRUE(sums[2].equal(at::full({10}, 3.5F)));
  EXPECT_FALSE(sums[3].defined());
}

using BucketIndex = std::optional<std::size_t>;
const std::vector<BucketIndex> kBucketOf = {1, std::nullopt, 1, 0};

TEST(BucketProgress, TheLastReplicaCompletesAVariableAndTheLastVariableABucket) {
  BucketProgress progress(2);
  progress.start(kBucketOf, 2);
  EXPECT_FALSE(progress.deliver(3));
  EXPECT_FALSE(progress.deliver(2));
  EXPECT_TRUE(progress.deliver(3));
  EXPECT_EQ(progress.filled(3), BucketIndex(0));
  EXPECT_TRUE(progress.deliver(2));
  EXPECT_EQ(progress.filled(2), std::nullopt);
  EXPECT_FALSE(progress.deliver(0));
  EXPECT_EQ(progress.is_filled(), (std::vector<bool>{false, false, true, true}));
  EXPECT_TRUE(progress.deliver(0));
  EXPECT_EQ(progress.filled(0), BucketIndex(1));
}

TEST(BucketProgress, AStepDoesNotRememberTheOneBefore) {
  BucketProgress progress(1);
  progress.start(kBucketOf, 2);
  EXPECT_TRUE(progress.deliver(0));
  EXPECT_EQ(progress.filled(0), std::nullopt);
  progress.start({0, std::nullopt, 0, 0}, 1);
  EXPECT_EQ(progress.is_filled(), std::vector<bool>(4, false));
  for (const std::size_t variable : {2, 0}) {
    EXPECT_TRUE(progress.deliver(variable));
    EXPECT_EQ(progress.filled(variable), std::nullopt);
  }
  EXPECT_TRUE(progress.deliver(3));
  EXPECT_EQ(progress.filled(3), BucketIndex(0));
}

TEST(BucketProgress, IfThreadsDeliverAtTheSameTimeOneOfThemFillsIn) {
  constexpr int kReplicas = 4;
  BucketProgress progress(kReplicas);
  for (int step = 0; step < 20; ++step) {
    const std::vector<BucketIndex> one_bucket(100, BucketIndex(0));
    progress.start(one_bucket, 1);
    std::atomic<int> filled = 0, complete = 0;
    std::vector<std::thread> replicas;
    for (int replica = 0; replica < kReplicas; ++replica) {
      replicas.emplace_back([&] {
        for (std::size_t variable = 0; variable < 100; ++variable) {
          if (!progress.deliver(variable)) continue;
          ++filled;
          if (progress.filled(variable)) ++complete;
        }
      });
    }
    for (std::thread& replica : replicas) replica.join();
    EXPECT_EQ(filled, 100);
    EXPECT_EQ(complete, 1);
  }
}

using Buckets = std::vector<std::size_t>;

/// Whether the reducer reduces `count` buckets before a deadline.
bool reduces(const GradientReducer& reducer, std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (reducer.reduced() < count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(GradientReducer, ReducesBucketsInTheirOrderWheneverTheyAreReady) {
  Buckets order;
  GradientReducer reducer([&](std::size_t bucket) { order.push_back(bucket); });
  for (int step = 0; step < 50; ++step) {
    order.clear();
    reducer.start(4);
    for (const std::size_t bucket : {2, 0, 3, 1}) reducer.ready(bucket);
    ASSERT_TRUE(reduces(reducer, 4));
    EXPECT_EQ(reducer.stop(), 4u);
    EXPECT_EQ(order, (Buckets{0, 1, 2, 3}));
  }
}

TEST(GradientReducer, FinishWaitsForAllBucketsAlsoForThoseThatBecomeReadyLater) {
  Buckets order;
  GradientReducer reducer([&](std::size_t bucket) { order.push_back(bucket); });
  for (int step = 0; step < 50; ++step) {
    order.clear();
    reducer.start(3);
    std::thread later([&] {
      for (const std::size_t bucket : {1, 2, 0}) reducer.ready(bucket);
    });
    reducer.finish();
    EXPECT_EQ(order, (Buckets{0, 1, 2}));
    later.join();
  }
  reducer.start(2);
  reducer.ready(0);
  reducer.stop();
  EXPECT_EQ(error_from([&] { reducer.finish(); }).code(), ErrorCode::kFailedPrecondition);
}

TEST(GradientReducer, StopReturnsHowManyAreReduced) {
  Buckets order;
  GradientReducer reducer([&](std::size_t bucket) { order.push_back(bucket); });
  reducer.start(4);
  reducer.ready(0);
  reducer.ready(2);
  ASSERT_TRUE(reduces(reducer, 1));
  EXPECT_EQ(reducer.stop(), 1u);
  reducer.ready(1);
  EXPECT_EQ(reducer.stop(), 1u);
  EXPECT_EQ(order, Buckets{0});
}

TEST(GradientReducer, StopWaitsForTheRunningBucketAndStartsNoOther) {
  std::promise<void> begun, may_end;
  std::atomic<int> ended = 0;
  GradientReducer reducer([&](std::size_t) {
    begun.set_value();
    may_end.get_future().wait();
    ++ended;
  });
  reducer.start(2);
  reducer.ready(0);
  begun.get_future().wait();
  std::thread stops([&] {
    EXPECT_EQ(reducer.stop(), 1u);
    EXPECT_EQ(ended, 1);
  });
  may_end.set_value();
  stops.join();
  reducer.ready(1);
  EXPECT_EQ(reducer.stop(), 1u);
}

TEST(GradientReducer, AnErrorEndsTheStepAndIsThrownByStop) {
  bool fails = true;
  Buckets order;
  std::promise<void> has_failed;
  GradientReducer reducer([&](std::size_t bucket) {
    if (fails && bucket == 1) {
      has_failed.set_value();
      throw Error(ErrorCode::kUnavailable, "worker 1 is gone");
    }
    order.push_back(bucket);
  });
  reducer.start(3);
  for (const std::size_t bucket : {1, 2, 0}) reducer.ready(bucket);
  has_failed.get_future().wait();
  for (int i = 0; i < 2; ++i) {
    const Error error = error_from([&] { reducer.stop(); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(mentions(error, "worker 1 is gone"));
  }
  EXPECT_EQ(order, Buckets{0});
  fails = false;
  reducer.start(2);
  reducer.ready(0);
  reducer.ready(1);
  EXPECT_TRUE(reduces(reducer, 2));
}

TEST(GradientReducer, EndsWithBucketsThatAreNotReady) {
  GradientReducer reducer([](std::size_t) {});
  reducer.start(2);
  reducer.ready(1);
}

TEST(GradientReducer, ItsThreadIsSingleThreadedAndChangesNoOthers) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  int inside = 0;
  {
    GradientReducer reducer([&](std::size_t) { inside = at::get_num_threads(); });
    reducer.start(1);
    reducer.ready(0);
    EXPECT_TRUE(reduces(reducer, 1));
  }
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  int later = 0;
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(later, 3);
  at::set_num_threads(before);
}

TEST(GradientReducer, AnInvalidBucketIsRefused) {
  GradientReducer reducer([](std::size_t) {});
  reducer.start(2);
  EXPECT_THROW(reducer.ready(2), Error);
}

}  // namespace
}  // namespace brigade::distribute
