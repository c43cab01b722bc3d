#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using variables::Aggregation;
using variables::Synchronization;

at::Tensor scalar(double value) {
  return at::full({}, value, at::kDouble);
}

TEST(MultiWorkerMirroredStrategy, InAClusterOfOneIsAMirroredStrategy) {
  MultiWorkerMirroredStrategy strategy(cluster::ClusterConfig{}, worker_cpus(2));
  EXPECT_EQ(strategy.name(), "multi_worker_mirrored");
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(strategy.num_workers(), 1);
  EXPECT_EQ(strategy.workers(), nullptr);
  EXPECT_TRUE(strategy.is_chief());
}

TEST(MultiWorkerMirroredStrategy, ReplicasAreNumberedOverAllWorkers) {
  std::mutex mutex;
  std::vector<int> ids;
  run_workers({2, 1, 3}, [&](MultiWorkerMirroredStrategy& strategy) {
    EXPECT_EQ(strategy.num_replicas_in_sync(), 6);
    EXPECT_EQ(strategy.num_workers(), 3);
    EXPECT_EQ(strategy.is_chief(), strategy.worker_index() == 0);
    strategy.run([&](ReplicaContext& context) {
      EXPECT_EQ(context.num_replicas_in_sync(), 6);
      const at::Tensor sum = context.all_reduce(comm::ReduceOp::kSum, scalar(1));
      EXPECT_EQ(sum.item<double>(), 6);
      const std::lock_guard lock(mutex);
      ids.push_back(context.replica_id());
    });
  });
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(MultiWorkerMirroredStrategy, DifferentSeedsAreRefusedByAll) {
  auto memberships = cluster::testing::make_in_memory_memberships(2);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      const Error error = error_from([&] {
        const MultiWorkerMirroredStrategy strategy(
            memberships[static_cast<std::size_t>(worker)],
            worker_cpus(1, static_cast<std::uint64_t>(worker)));
      });
      if (error.code() == ErrorCode::kFailedPrecondition && mentions(error, "seed") &&
          mentions(error, "/job:worker/task:1 has seed 1 and /job:worker/task:0 has 0"))
        ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 2);
}

// TensorFlow, measured: worker 1's first value 2.0 became the chief's 1.0.
TEST(MultiWorkerMirroredStrategy, NcclIsForGpusAlsoInAClusterOfOne) {
  MultiWorkerMirroredOptions options = worker_cpus(1);
  options.communication.transport = comm::Transport::kNccl;
  const Error error = error_from(
      [&] { const MultiWorkerMirroredStrategy strategy(cluster::ClusterConfig{}, options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("'auto'"), std::string::npos) << error.what();
}

TEST(MultiWorkerMirroredStrategy, VariablesStartWithTheChiefsValues) {
  run_workers({1, 2}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto variable =
        variables::make_variable({.name = "v", .initial = scalar(1.0 + strategy.worker_index())});
    EXPECT_EQ(variable.read().item<double>(), 1.0);
  });
}

TEST(MultiWorkerMirroredStrategy, DifferentModelsAreRefusedNamingTheDifference) {
  const Error error = error_from([] {
    run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      variables::make_variable(
          {.name = "weight", .initial = at::full({3 + strategy.worker_index()}, 1.0)});
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "weight Float[4]")) << error.what();
  EXPECT_TRUE(mentions(error, "weight Float[3]")) << error.what();
}

TEST(MultiWorkerMirroredStrategy, DifferentOrdersInMemoryAreRefused) {
  const Error error = error_from([] {
    run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      variables::make_variable({.name = "kernel",
                                .initial = at::full({2, 3, 3, 3}, 1.0),
                                .memory_format = strategy.worker_index() == 0
                                                     ? at::MemoryFormat::Contiguous
                                                     : at::MemoryFormat::ChannelsLast});
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "in channels-last order")) << error.what();
}

/// An optimizer that the second of two workers makes differently, and the error that both throw.
struct OtherOptimizer {
  std::function<optim::UpdateRulePtr(bool is_second)> rule;
  std::function<OptimizerOptions(bool is_second)> options;
  std::string text;
};

TEST(MultiWorkerMirroredStrategy, DifferentOptimizersAreRefusedByAllWithBothValues) {
  const auto sgd = [](bool) { return optim::Sgd{}.rule(); };
  const auto plain = [](bool) { return OptimizerOptions{}; };
  const auto group = [](double rate) {
    return OptimizerOptions{.groups = {{.names = {"v*"}, .learning_rate = rate}}};
  };
  const std::vector<OtherOptimizer> cases = {
      {[](bool second) { return optim::Sgd{.learning_rate = second ? 0.5 : 0.25}.rule(); }, plain,
       "has learning_rate 0.5 and /job:worker/task:0 has 0.25"},
      {[](bool second) { return optim::Sgd{.momentum = second ? 0.5 : 0.25}.rule(); }, plain,
       "has momentum 0.5 and /job:worker/task:0 has 0.25"},
      {[](bool second) { return optim::Sgd{.weight_decay = second ? 0.5 : 0.25}.rule(); }, plain,
       "has weight_decay 0.5 and /job:worker/task:0 has 0.25"},
      {[](bool second) { return second ? optim::Adam{}.rule() : optim::Sgd{}.rule(); }, plain,
       "has optimizer adam and /job:worker/task:0 has sgd"},
      {sgd, [](bool second) { return OptimizerOptions{.accumulate = second ? 3 : 2}; },
       "has accumulate 3 and /job:worker/task:0 has 2"},
      {sgd, [&](bool second) { return group(second ? 0.5 : 0.25); }, "has parameter group v*"},
      {sgd, [&](bool second) { return second ? group(0.5) : OptimizerOptions{}; },
       "and /job:worker/task:0 has nothing"}};
  for (const OtherOptimizer& each : cases) {
    std::atomic<int> num_notified = 0;
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto scope = strategy.scope();
      const auto variable = variables::make_variable({.name = "v", .initial = scalar(1)});
      const bool is_second = strategy.worker_index() == 1;
      const Error error = error_from([&] {
        strategy.make_optimizer(std::span(&variable, 1), each.rule(is_second),
                                each.options(is_second));
      });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      EXPECT_TRUE(mentions(error, each.text)) << error.what();
      EXPECT_TRUE(mentions(error, "/job:worker/task:1 ")) << error.what();
      ++num_notified;
    });
    EXPECT_EQ(num_notified, 2) << each.text;
  }
}

TEST(MultiWorkerMirroredStrategy, ReducesOverAllWorkers) {
  run_workers({1, 2}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto ids =
        strategy.run([](ReplicaContext& context) { return scalar(context.replica_id()); });
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kSum, ids).item<double>(), 3);
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMean, ids).item<double>(), 1);
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMax, ids).item<double>(), 2);
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMin, ids).item<double>(), 0);
    EXPECT_EQ(strategy.broadcast_from_chief(std::int64_t{7} + strategy.worker_index()), 7);
    EXPECT_EQ(strategy.all_reduce_max(7 + strategy.worker_index()), 8);
    EXPECT_EQ(strategy.broadcast_from_chief("from " + std::to_string(strategy.worker_index())),
              "from 0");
  });
}

// The values of tf.distribute's own documentation: [0, 1, 2, 3] and [4, 5].
TEST(MultiWorkerMirroredStrategy, ReducesUnevenValuesOverTheirAxis) {
  run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto values = strategy.run([](ReplicaContext& context) {
      return context.replica_id() == 0 ? at::arange(4, at::kDouble) : at::arange(4, 6, at::kDouble);
    });
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kSum, values, 0).item<double>(), 15);
    EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMean, values, 0).item<double>(), 2.5);
    EXPECT_TRUE(strategy.gather(values, 0).equal(at::arange(6, at::kDouble)));
  });
}

TEST(MultiWorkerMirroredStrategy, ValuesWithoutExamplesAreLeftOut) {
  run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = input::from_tensor_slices(at::arange(3, at::kDouble)).batch(2);
    std::vector<double> means;
    for (const auto& batch : strategy.distribute(dataset)) {
      const auto own = strategy.run(
          [](ReplicaContext&, const at::Tensor& values) { return values.mean(); }, batch);
      means.push_back(strategy.reduce_mean_over_examples(own).item<double>());
      EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMean, own).item<double>(), means.back());
      EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMax, own).item<double>(),
                means.size() == 1 ? 1.0 : 2.0);
    }
    EXPECT_EQ(means, (std::vector<double>{0.5, 2.0}));
  });
}

// Replicas write 1 and 2; the expected values are TensorFlow's.
TEST(MultiWorkerMirroredStrategy, OnReadVariablesAreReadOverAllWorkers) {
  run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto make = [](const char* name, Aggregation aggregation) {
      return variables::make_variable({.name = name,
                                       .initial = scalar(0),
                                       .trainable = false,
                                       .synchronization = Synchronization::kOnRead,
                                       .aggregation = aggregation});
    };
    const auto sum = make("sum", Aggregation::kSum);
    const auto mean = make("mean", Aggregation::kMean);
    const auto first = make("first", Aggregation::kOnlyFirstReplica);
    strategy.run([&](ReplicaContext& context) {
      for (const auto& variable : {sum, mean, first})
        variable.assign(scalar(1 + context.replica_id()));
    });
    EXPECT_EQ(sum.read().item<double>(), 3);
    EXPECT_EQ(mean.read().item<double>(), 1.5);
    EXPECT_EQ(first.read().item<double>(), 1);
    for (const auto& variable : {sum, mean, first}) variable.assign(scalar(10));
    EXPECT_EQ(sum.component(0).item<double>(), 5);
    EXPECT_EQ(mean.component(0).item<double>(), 10);
    EXPECT_EQ(sum.read().item<double>(), 10);
  });
}

TEST(MultiWorkerMirroredStrategy, OnWriteVariablesAggregateOverAllReplicas) {
  run_workers({1, 1}, [](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto variable = variables::make_variable(
        {.name = "v", .initial = scalar(1), .trainable = false, .aggregation = Aggregation::kMean});
    strategy.run(
        [&](ReplicaContext& context) { variable.assign_add(scalar(1 + context.replica_id())); });
    EXPECT_EQ(variable.read().item<double>(), 2.5);
  });
}

TEST(MultiWorkerMirroredStrategy, AGradientThatOneWorkerLacksIsZeroThere) {
  std::mutex mutex;
  std::vector<at::Tensor> after;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto model = strategy.create<AffineModule>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.5});
    strategy.run([&](ReplicaContext& context) {
      const at::Tensor loss = context.replica_id() == 0 ? model->weight.sum() : model->bias.sum();
      optimizer.minimize(loss, LossScale::kSum);
    });
    const std::lock_guard lock(mutex);
    for (const auto& variable : model.variables()) after.push_back(variable.read());
  });
  ASSERT_EQ(after.size(), 6u);
  for (const std::size_t worker : {0u, 3u}) {
    EXPECT_TRUE(after[worker].equal(at::full({3}, 1.5, at::kDouble))) << after[worker];
    EXPECT_TRUE(after[worker + 1].equal(at::full({3}, -0.5, at::kDouble)));
    EXPECT_TRUE(after[worker + 2].equal(at::full({2}, 5.0, at::kDouble)));
  }
}

TEST(MultiWorkerMirroredStrategy, ALostWorkerIsAnErrorThatNamesIt) {
  std::atomic<int> num_notified = 0;
  const Error error = error_from([&] {
    run_workers({1, 1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      if (strategy.worker_index() == 1) throw Error(ErrorCode::kInternal, "worker 1 fell over");
      const Error lost =
          error_from([&] { strategy.run([](ReplicaContext& context) { context.barrier(); }); });
      if (lost.code() == ErrorCode::kUnavailable && mentions(lost, "/job:worker/task:1"))
        ++num_notified;
    });
  });
  EXPECT_TRUE(mentions(error, "fell over")) << error.what();
  EXPECT_EQ(num_notified, 2);
}

TEST(MultiWorkerMirroredStrategy, PositionsOfAllWorkersAreSavedTogether) {
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> rest;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = strategy.distribute_from_function([](const InputContext& context) {
      const auto all = input::from_tensor_slices(at::arange(20));
      return context.input_pipeline_id == 0 ? all.take(8).batch(2) : all.skip(8).batch(3);
    });
    auto iterator = dataset.iterator();
    iterator.next();
    const io::StateTree saved = iterator.save();
    iterator.next();
    auto again = dataset.iterator();
    again.restore(saved);
    const auto next = again.next();
    const std::lock_guard lock(mutex);
    const at::Tensor own = (*next)[0];
    for (std::int64_t i = 0; i < own.numel(); ++i)
      rest[strategy.worker_index()].push_back(own[i].item<std::int64_t>());
  });
  EXPECT_EQ(rest[0], (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(rest[1], (std::vector<std::int64_t>{11, 12, 13}));
}

/// The batches that a worker's replicas get, step by step, and all workers' number of examples.
using Seen = std::vector<std::pair<std::vector<at::Tensor>, std::int64_t>>;

Seen all_of(distribute::DistributedIterator<at::Tensor> iterator) {
  Seen seen;
  while (const auto batch = iterator.next())
    seen.emplace_back(batch->values(), batch->examples()->global);
  return seen;
}

bool are_equal(const Seen& a, const Seen& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.second == y.second &&
           std::ranges::equal(x.first, y.first,
                              [](const at::Tensor& s, const at::Tensor& t) { return s.equal(t); });
  });
}

// In each step the workers agree on who has data; the prefetching thread must not do that.
TEST(MultiWorkerMirroredStrategy, PrefetchedBatchesAreTheSameForAllWorkers) {
  std::atomic<int> equal = 0;
  run_workers({2, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto numbers = input::from_tensor_slices(at::arange(22));
    const auto by_function = [&](int ahead) {
      return strategy.distribute_from_function(
          [&](const InputContext& context) {
            return context.input_pipeline_id == 0 ? numbers.take(6).batch(2) : numbers.batch(3);
          },
          {.per_replica_buffer_size = ahead});
    };
    const auto by_hint = [&](int ahead) {
      return strategy.distribute(
          numbers.shard_hint().batch(5),
          {.auto_shard = AutoShardPolicy::kHint, .per_replica_buffer_size = ahead});
    };
    const Seen function = all_of(by_function(0).iterator());
    const Seen hint = all_of(by_hint(0).iterator());
    EXPECT_EQ(function.size(), 8u);
    EXPECT_GE(hint.size(), 5u);
    for (const int ahead : {1, 3}) {
      if (are_equal(all_of(by_function(ahead).iterator()), function)) ++equal;
      if (are_equal(all_of(by_hint(ahead).iterator()), hint)) ++equal;
      auto iterator = by_hint(ahead).iterator();
      iterator.next();
      iterator.next();
      auto again = by_hint(0).iterator();
      again.restore(iterator.save());
      if (are_equal(all_of(std::move(again)), Seen(hint.begin() + 2, hint.end()))) ++equal;
    }
  });
  EXPECT_EQ(equal, 2 * 6);
}

}  // namespace
}  // namespace brigade::distribute
