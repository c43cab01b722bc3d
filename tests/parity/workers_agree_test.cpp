// Any number of workers with any number of replicas each gives the result of one replica on the
// global batch. Here the workers are threads; tests/process has real processes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>

#include "brigade/base/strings.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/ledger.h"
#include "tests/parity/training.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::MultiWorkerMirroredStrategy;
using distribute::ReplicaContext;
using distribute::run_workers;

using Layout = std::vector<int>;  // replicas of each worker

std::string text_of(const Layout& layout) {
  std::vector<std::string> counts;
  for (const int replicas : layout) counts.push_back(std::to_string(replicas));
  return base::str_cat("on workers with ", base::join(counts, ", "), " replicas");
}

/// The weights with which every worker ends; they must be equal, bit for bit.
template <class Model, class Rule>
Weights trained_by(const Layout& layout, int steps, const Rule& rule, const BatchPlan& plan = {},
                   const comm::CommunicationOptions& communication = {}) {
  std::mutex mutex;
  std::map<int, Weights> all;
  run_workers(
      layout,
      [&](MultiWorkerMirroredStrategy& strategy) {
        EXPECT_EQ(strategy.num_replicas_in_sync(),
                  std::accumulate(layout.begin(), layout.end(), 0));
        Weights weights = train_under<Model>(strategy, steps, rule, plan);
        const std::lock_guard lock(mutex);
        all[strategy.worker_index()] = std::move(weights);
      },
      communication);
  for (const auto& [worker, weights] : all) {
    for (std::size_t i = 0; i < weights.after.size(); ++i)
      EXPECT_TRUE(weights.after[i].equal(all[0].after[i])) << "worker " << worker;
  }
  EXPECT_EQ(all.size(), layout.size());
  return all[0];
}

template <class Model, class Rule>
Weights by_one(int steps, const Rule& rule, const BatchPlan& plan = {}) {
  MirroredStrategy strategy(distribute::cpus(1));
  return train_under<Model>(strategy, steps, rule, plan);
}

const std::vector<Layout> kLayouts = {{1, 1}, {2, 2}, {1, 1, 1}, {2, 2, 2}, {1, 1, 1, 1}, {2, 1}};

TEST(WorkersAgree, OneToFourWorkersWithOneAndTwoReplicasInFloat64) {
  const optim::Sgd rule{.learning_rate = 0.02, .momentum = 0.9};
  const Weights one = by_one<models::Mlp>(20, rule);
  for (const Layout& layout : kLayouts)
    expect_same(trained_by<models::Mlp>(layout, 20, rule), one, 1e-10, text_of(layout));
}

TEST(WorkersAgree, OnTheMnistCnnWithAdam) {
  const optim::Adam rule{.learning_rate = 1e-3};
  const Weights one = by_one<models::MnistCnn>(5, rule);
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 2}})
    expect_same(trained_by<models::MnistCnn>(layout, 5, rule), one, 1e-8, text_of(layout));
}

TEST(WorkersAgree, WithAccumulationOverUnevenBatches) {
  const optim::Sgd rule{.learning_rate = 0.02, .momentum = 0.9};
  const Weights one = by_one<models::Mlp>(10, rule, {.batch = 10});
  expect_same(trained_by<models::Mlp>({1, 1}, 10, rule, {.accumulate = 3}), one, 1e-10, "on 1, 1");
  expect_same(trained_by<models::Mlp>({2, 1}, 10, rule, {.accumulate = 3}), one, 1e-10, "on 2, 1");
}

void expect_equal_bits(const Weights& some, const Weights& others, const std::string& where) {
  ASSERT_EQ(some.names, others.names);
  for (std::size_t i = 0; i < some.after.size(); ++i)
    EXPECT_TRUE(some.after[i].equal(others.after[i])) << some.names[i] << " " << where;
}

// No bit depends on the buckets, on when they are reduced, or on the transport.
TEST(WorkersAgree, BitForBitWithAnyBuckets) {
  const optim::Adam rule{.learning_rate = 1e-3};
  for (const Layout& layout : {Layout{1, 1}, Layout{2, 1}, Layout{1, 1, 1}}) {
    const Weights whole = trained_by<models::Mlp>(layout, 10, rule);
    for (const std::int64_t bytes : {1, 4096, 100'000}) {
      const Weights in_buckets =
          trained_by<models::Mlp>(layout, 10, rule, {}, {.bytes_per_pack = bytes});
      expect_equal_bits(in_buckets, whole, base::str_cat(text_of(layout), ", ", bytes));
    }
  }
}

TEST(WorkersAgree, BitForBitOverTcpInBuckets) {
  if (!comm::gloo_is_built_in()) GTEST_SKIP() << "built without Gloo";
  const optim::Adam rule{.learning_rate = 1e-3};
  const Weights whole = trained_by<models::MnistCnn>({2, 2}, 3, rule);
  const Weights in_buckets = trained_by<models::MnistCnn>(
      {2, 2}, 3, rule, {}, {.transport = comm::Transport::kGloo, .bytes_per_pack = 4096});
  expect_equal_bits(in_buckets, whole, "over TCP");
}

/// Large enough for more than one bucket size.
struct Wide : models::Mlp {
  Wide() : Mlp({.hidden = {200}}) {}
};

TEST(WorkersAgree, BitForBitWhileTheBucketSizeIsTunedAndAfterwards) {
  const optim::Sgd rule{.learning_rate = 0.01, .momentum = 0.9};
  const Weights whole = trained_by<Wide>({1, 1}, 80, rule);
  const Weights tuned = trained_by<Wide>({1, 1}, 80, rule, {}, {.bytes_per_pack = std::nullopt});
  expect_equal_bits(tuned, whole, "with a tuned bucket size");
}

data::Dataset<at::Tensor> ids(std::int64_t count) {
  return input::from_tensor_slices(at::arange(count)).shuffle(7);
}

TEST(WorkersAgree, EveryExampleOfAnEpochIsSeenOnce) {
  for (const Layout& layout : kLayouts) {
    Ledger ledger;
    run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
      for (const auto& batch : strategy.distribute(ids(23).batch(5)))
        strategy.run([&](ReplicaContext&, const at::Tensor& own) { ledger.add(own); }, batch);
    });
    ledger.expect_each(23, 1);
  }
}

TEST(WorkersAgree, WithoutShardingEveryWorkerSeesEverything) {
  Ledger ledger;
  run_workers({1, 2}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset =
        strategy.distribute(ids(23).batch(5), {.auto_shard = distribute::AutoShardPolicy::kOff});
    for (const auto& batch : dataset) {
      strategy.run([&](ReplicaContext&, const at::Tensor& own) { ledger.add(own); }, batch);
    }
  });
  ledger.expect_each(23, 2);
}

// TensorFlow measured the same ends: a worker whose data ends first gets empty batches.
TEST(WorkersAgree, SeparateDataMayEndAtDifferentSteps) {
  Ledger ledger;
  std::mutex mutex;
  std::map<int, int> steps;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = strategy.distribute_from_function([&](const distribute::InputContext& c) {
      EXPECT_EQ(c.num_input_pipelines, 2);
      const auto all = input::from_tensor_slices(at::arange(12));
      return c.input_pipeline_id == 0 ? all.take(4).batch(2) : all.skip(4).batch(2);
    });
    for (const auto& batch : dataset) {
      const auto sums = strategy.run(
          [&](ReplicaContext& context, const at::Tensor& own) {
            ledger.add(own);
            EXPECT_EQ(*context.local_examples(), own.numel());
            return own.sum();
          },
          batch);
      const std::lock_guard lock(mutex);
      const int step = steps[strategy.worker_index()]++;
      EXPECT_EQ(batch.examples()->global, step < 2 ? 4 : 2);
    }
  });
  ledger.expect_each(12, 1);
  EXPECT_EQ(steps, (std::map<int, int>{{0, 4}, {1, 4}}));
}

}  // namespace
}  // namespace brigade::parity
