#include "brigade/ps/sync_replicas_optimizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"

namespace brigade::ps {
namespace {

using distribute::error_from;
using distribute::mentions;
using testing::cluster_of;
using testing::JobOfThreads;
using testing::Plan;
using testing::SmallNet;
using testing::Weights;

const optim::Sgd kRule{.learning_rate = 0.05};

TEST(SyncReplicasOptimizer, GivesTheStrategysOptions) {
  const SyncReplicasOptimizer all(kRule, {.replicas_to_aggregate = 3});
  EXPECT_EQ(all.total_num_replicas(), 3);
  const ParameterServerOptions options = all.strategy_options(cluster_of(2, 3), {.seed = 7});
  EXPECT_EQ(options.mode, UpdateMode::kSync);
  EXPECT_EQ(options.backup_workers, 0);
  EXPECT_EQ(options.seed, 7u);
  const SyncReplicasOptimizer backups(kRule, {.replicas_to_aggregate = 3, .total_num_replicas = 5});
  EXPECT_EQ(backups.strategy_options(cluster_of(1, 5)).backup_workers, 2);
  EXPECT_EQ(backups.rule()->name(), kRule.rule()->name());
}

TEST(SyncReplicasOptimizer, RefusesNumbersThatCannotWorkSayingWhatDoes) {
  const auto refusal = [](SyncReplicasOptions options) {
    return error_from([&] { const SyncReplicasOptimizer made(kRule, options); });
  };
  for (const SyncReplicasOptions& wrong :
       {SyncReplicasOptions{.replicas_to_aggregate = 0},
        SyncReplicasOptions{.replicas_to_aggregate = 1, .total_num_replicas = 0},
        SyncReplicasOptions{.replicas_to_aggregate = 4, .total_num_replicas = 2}})
    EXPECT_EQ(refusal(wrong).code(), ErrorCode::kInvalidArgument);
  const Error several = refusal({.replicas_to_aggregate = 4, .total_num_replicas = 2});
  EXPECT_TRUE(mentions(several, "OptimizerOptions::accumulate")) << several.what();

  const SyncReplicasOptimizer three(kRule, {.replicas_to_aggregate = 3});
  const Error workers = error_from([&] { three.strategy_options(cluster_of(1, 2)); });
  EXPECT_EQ(workers.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(workers, "total_num_replicas is 3")) << workers.what();
}

/// The error of making an optimizer of it under `strategy`.
Error refusal_under(distribute::Strategy& strategy, const SyncReplicasOptimizer& optimizer) {
  const auto model = strategy.create<SmallNet>(std::int64_t{16});
  return error_from([&] { strategy.optimizer(model, optimizer); });
}

TEST(SyncReplicasOptimizer, RefusesStrategiesThatTrainInAnotherWay) {
  const SyncReplicasOptimizer optimizer(kRule, {.replicas_to_aggregate = 2});
  distribute::OneDeviceStrategy one("cpu:0");
  const Error without_servers = refusal_under(one, optimizer);
  EXPECT_EQ(without_servers.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(without_servers, "one_device")) << without_servers.what();

  JobOfThreads asynchronous(1, 2);
  const auto async = asynchronous.join(0);
  const Error each = refusal_under(*async, optimizer);
  EXPECT_EQ(each.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(each, "when they arrive")) << each.what();

  JobOfThreads three(1, 3);
  const auto more = three.join(0, {.mode = UpdateMode::kSync});
  const Error other = refusal_under(*more, optimizer);
  EXPECT_EQ(other.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(other, "of 3 of 3")) << other.what();
}

TEST(SyncReplicasOptimizer, TrainsAsTheModeOfTheStrategyDoes) {
  const Plan plan{.rule = kRule.rule(), .hidden = 16};
  const Weights expected = testing::trained_in_sync(2, 2, plan);
  const SyncReplicasOptimizer optimizer(kRule, {.replicas_to_aggregate = 2});
  JobOfThreads job(2, 2);
  std::atomic<int> ended = 0;
  job.run(optimizer.strategy_options(cluster_of(2, 2)), [&](ParameterServerStrategy& strategy) {
    const auto model = strategy.create<SmallNet>(plan.hidden);
    const auto updates = strategy.optimizer(model, optimizer);
    for (std::int64_t step = 0; step < plan.steps; ++step)
      strategy.run([&] {
        updates.minimize(testing::loss_of(model.local(), step, strategy.worker_index()));
      });
    testing::expect_equal_bits(testing::weights_of(model.variables()), expected,
                               "with the wrapper");
    ++ended;
  });
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace brigade::ps
