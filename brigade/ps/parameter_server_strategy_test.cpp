#include "brigade/ps/parameter_server_strategy.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"
#include "brigade/ps/testing/local_service.h"

namespace brigade::ps {
namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using testing::cluster_of;
using testing::config_of;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::Killed;
using testing::loss_of;
using testing::on_mirrored_workers;
using testing::on_one_device;
using testing::Plan;
using testing::restore;
using testing::save;
using testing::SavedTraining;
using testing::SmallNet;
using testing::trained_by;
using testing::trained_in_sync;
using testing::Training;
using testing::Weights;

const std::vector<std::pair<std::string, optim::UpdateRulePtr>>& rules() {
  static const std::vector<std::pair<std::string, optim::UpdateRulePtr>> all = {
      {"SGD", optim::Sgd{.learning_rate = 0.05}.rule()},
      {"momentum", optim::Sgd{.learning_rate = 0.05, .momentum = 0.9}.rule()},
      {"Adam", optim::Adam{.learning_rate = 1e-2, .weight_decay = 0.01}.rule()}};
  return all;
}

TEST(ParameterServerStrategy, OneWorkerGivesTheBitsOfOneDevice) {
  for (const auto& [name, rule] : rules()) {
    const Plan plan{.rule = rule};
    const Weights expected = on_one_device(plan);
    for (const int servers : {1, 2, 3}) {
      JobOfThreads job(servers, 1);
      const auto strategy = job.join(0);
      expect_equal_bits(trained_by(*strategy, plan), expected,
                        base::str_cat(name, ", ", servers, " servers"));
      EXPECT_EQ(job.step(), plan.steps);
    }
  }
}

TEST(ParameterServerStrategy, EachModeGivesOneWorkerTheSameBits) {
  const Plan plan;
  const Weights expected = on_one_device(plan);
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, {.mode = mode});
    expect_equal_bits(trained_by(*strategy, plan), expected,
                      base::str_cat("mode ", static_cast<int>(mode)));
  }
}

TEST(ParameterServerStrategy, ReplicasOfAWorkerGiveTheBitsOfMirrored) {
  for (const bool aggregates : {false, true}) {
    const Plan plan{.hidden = 16, .aggregates = aggregates};
    distribute::MirroredStrategy mirrored(cpus(2));
    const Weights expected = trained_by(mirrored, plan);
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, {.devices = cpus(2).devices});
    EXPECT_EQ(strategy->num_replicas_in_sync(), 2);
    expect_equal_bits(trained_by(*strategy, plan), expected, aggregates ? "sums" : "gradients");
    EXPECT_EQ(job.step(), plan.steps);
  }
}

TEST(ParameterServerStrategy, SynchronousWorkersGiveTheBitsOfMultiWorkerMirrored) {
  for (const int workers : {2, 3}) {
    const Plan plan{.hidden = 16};
    const Weights expected = on_mirrored_workers(workers, plan);
    for (const int servers : {1, 2, 3}) {
      expect_equal_bits(trained_in_sync(servers, workers, plan), expected,
                        base::str_cat(workers, " workers, ", servers, " servers"));
    }
  }
}

TEST(ParameterServerStrategy, BackupWorkersEndWithTheOthersWeights) {
  constexpr std::int64_t kLastStep = 10;
  JobOfThreads job(2, 3);
  std::mutex mutex;
  std::map<int, Weights> all;
  job.run({.mode = UpdateMode::kSync, .backup_workers = 1}, [&](ParameterServerStrategy& strategy) {
    Training training(strategy, {});
    strategy.fetch_state();  // a worker that comes late learns the step
    for (std::int64_t number = 0; *strategy.global_step() < kLastStep; ++number)
      training.step(number);
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = training.weights();
  });
  EXPECT_EQ(job.step(), kLastStep);
  ASSERT_EQ(all.size(), 3u);
  for (const auto& [worker, weights] : all)
    expect_equal_bits(weights, all[0], base::str_cat("worker ", worker));
}

TEST(ParameterServerStrategy, NoWorkerIsFurtherAheadThanTheBound) {
  constexpr std::int64_t kStaleness = 1;
  constexpr int kWorkers = 3;
  JobOfThreads job(2, kWorkers);
  std::atomic<int> present = 0;
  std::array<std::atomic<std::int64_t>, kWorkers> done = {};
  job.run({.mode = UpdateMode::kBounded, .staleness = kStaleness},
          [&](ParameterServerStrategy& strategy) {
            Training training(strategy, {});
            strategy.run([] {});  // from now on the others wait for this worker
            ++present;
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            while (present < kWorkers && std::chrono::steady_clock::now() < deadline)
              std::this_thread::yield();
            for (std::int64_t number = 0; number < 20; ++number) {
              strategy.run([&] {
                for (const auto& other : done) EXPECT_LE(number - other, kStaleness);
              });
              training.step(number);
              ++done[static_cast<std::size_t>(strategy.worker_index())];
            }
          });
  EXPECT_EQ(job.step(), 20 * kWorkers);
}

TEST(ParameterServerStrategy, AsynchronousWorkersConverge) {
  JobOfThreads job(2, 4);
  std::mutex mutex;
  std::vector<double> losses;
  const Plan plan{.rule = optim::Sgd{.learning_rate = 0.02, .momentum = 0.5}.rule(), .hidden = 32};
  job.run({}, [&](ParameterServerStrategy& strategy) {
    Training training(strategy, plan);
    training.steps(0, 300);
    const SmallNet model(plan.hidden);
    const at::NoGradGuard no_grad;
    const double initial = loss_of(model, 1, 0).mean().item<double>();
    for (const auto& [name, value] : training.weights())
      model.named_parameters()[name].copy_(value);
    const double last = loss_of(model, 1, 0).mean().item<double>();
    const std::lock_guard lock(mutex);
    losses.push_back(last / initial);
  });
  ASSERT_EQ(losses.size(), 4u);
  for (const double loss : losses) EXPECT_LT(loss, 0.1);
  EXPECT_EQ(job.step(), 1200);
}

TEST(ParameterServerStrategy, WorkersBeginWithTheChiefsValuesAndEndWithTheSameOnes) {
  JobOfThreads job(2, 2);
  std::mutex mutex;
  std::map<int, Weights> all;
  job.run({}, [&](ParameterServerStrategy& strategy) {
    Training training(strategy, {});
    if (strategy.is_chief()) {
      for (const auto& variable : training.variables()) variable.assign(variable.read() + 1);
    }
    strategy.store_state();  // the other waits here until the chief's first run
    if (strategy.is_chief()) strategy.run([] {});
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = training.weights();
  });
  expect_equal_bits(all[1], all[0], "worker 1");
  EXPECT_TRUE(all[1].at("unused").equal(SmallNet(13).unused.detach() + 1));
}

TEST(ParameterServerStrategy, ARestartOfServersChangesNoBit) {
  Plan plan;
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  plan.before_step = [&](std::int64_t step, const distribute::Optimizer&) {
    if (step == 2) job.servers()[0].restart();
    if (step == 3) job.servers()[1].lose_replies(testing::ServiceCall::kExchange);
    if (step == 4) {
      job.servers()[1].restart();
      job.servers()[0].restart();
    }
  };
  const auto strategy = job.join(0);
  expect_equal_bits(trained_by(*strategy, plan), expected, "with restarts");
  EXPECT_EQ(job.step(), plan.steps);
}

TEST(ParameterServerStrategy, ARestartOfServersChangesNoBitOfSynchronousTraining) {
  const Plan plan;
  const Weights expected = trained_in_sync(2, 2, plan);
  JobOfThreads job(2, 2);
  std::mutex mutex;
  std::map<int, Weights> all;
  job.run({.mode = UpdateMode::kSync}, [&](ParameterServerStrategy& strategy) {
    Plan own = plan;
    own.before_step = [&](std::int64_t step, const distribute::Optimizer&) {
      if (strategy.is_chief() && (step == 2 || step == 4))
        job.servers()[static_cast<int>(step / 2) - 1].restart();
    };
    Weights weights = trained_by(strategy, own);
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = std::move(weights);
  });
  for (const auto& [worker, weights] : all)
    expect_equal_bits(weights, expected, base::str_cat("worker ", worker));
}

TEST(ParameterServerStrategy, AKilledWorkerStopsNobodyAndItsSuccessorJoins) {
  JobOfThreads job(2, 3);
  job.run({}, [&](ParameterServerStrategy& strategy) {
    Training training(strategy, {});
    training.steps(0, 3);
    if (strategy.worker_index() == 2) throw Killed();
    training.steps(3, 12);
  });
  EXPECT_EQ(job.step(), 27);
  const auto successor = job.join(2);
  Training training(*successor, {});
  training.steps(3, 5);
  EXPECT_EQ(successor->global_step(), 29);
}

TEST(ParameterServerStrategy, ARestartedChiefContinuesWithTheServersValues) {
  const Plan plan{.steps = 10};
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  job.run({}, [&](ParameterServerStrategy& strategy) {
    Training(strategy, plan).steps(0, 6);
    throw Killed();
  });
  const auto successor = job.join(0);
  Training training(*successor, plan);
  EXPECT_EQ(successor->global_step(), 6);
  successor->set_global_step(4);  // as after a restore of an older checkpoint
  successor->store_state();
  EXPECT_EQ(successor->global_step(), 6);
  training.steps(6, plan.steps);
  expect_equal_bits(training.weights(), expected, "after a restart of the chief");
}

TEST(ParameterServerStrategy, ARestartedChiefContinuesWithTheServersLearningRate) {
  const auto rate_of = [](JobOfThreads& job) {
    return job.servers()[0].core().status().learning_rate;
  };
  JobOfThreads job(2, 2);
  job.run({}, [&](ParameterServerStrategy& strategy) {
    if (!strategy.is_chief()) return;
    Training training(strategy, {});
    training.optimizer().set_learning_rate(5e-3);
    training.steps(0, 2);
    throw Killed();
  });
  EXPECT_EQ(rate_of(job), 5e-3);

  const auto successor = job.join(0);
  Training training(*successor, {});
  // As after a restore of an older checkpoint.
  training.optimizer().restore("adam", training.optimizer().state().save("adam"));
  EXPECT_EQ(rate_of(job), 5e-3);
  successor->store_state();
  EXPECT_EQ(training.optimizer().state().learning_rate(), 5e-3);
  training.optimizer().set_learning_rate(1e-3);
  EXPECT_EQ(rate_of(job), 1e-3) << "a later change counts";

  const auto worker = job.join(1);
  Training other(*worker, {});
  worker->store_state();
  EXPECT_EQ(other.optimizer().state().learning_rate(), 1e-3);
}

TEST(ParameterServerStrategy, AChiefThatMakesNoStepLetsWorkersBegin) {
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    JobOfThreads job(2, 2);
    {
      const auto chief = job.join(0, {.mode = mode});
      Training training(*chief, {});
      chief->set_global_step(7);
      chief->store_state();
      ASSERT_FALSE(job.servers()[0].core().status().is_ready);
      chief->start_job();
    }
    ASSERT_TRUE(job.servers()[1].core().status().is_ready);
    const auto worker = job.join(1, {.mode = mode});
    Training training(*worker, {});
    worker->store_state();
    EXPECT_EQ(worker->global_step(), 7);
  }
}

TEST(ParameterServerStrategy, AWorkerThatWasReplacedEnds) {
  JobOfThreads job(1, 1);
  const auto old = job.join(0);
  Training training(*old, {});
  training.steps(0, 2);
  const auto successor = job.join(0);
  Training continued(*successor, {});
  continued.steps(2, 3);
  EXPECT_EQ(error_from([&] { training.step(2); }).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(job.step(), 3);
}

TEST(ParameterServerStrategy, WhatTheChiefSavesContinuesAnywhere) {
  Plan plan{.steps = 10};
  plan.before_step = [](std::int64_t step, const distribute::Optimizer& optimizer) {
    if (step == 3) optimizer.set_learning_rate(5e-3);
  };
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  const auto first = job.join(0);
  Training training(*first, plan);
  training.steps(0, 5);
  const SavedTraining saved = save(*first, training);
  EXPECT_EQ(saved.step, 5);

  distribute::OneDeviceStrategy one("cpu:0");
  Training on_one(one, plan);
  restore(one, on_one, saved);
  on_one.steps(5, plan.steps);
  expect_equal_bits(on_one.weights(), expected, "on one device");

  JobOfThreads other(3, 1);
  const auto second = other.join(0);
  Training on_three(*second, plan);
  restore(*second, on_three, saved);
  on_three.steps(5, plan.steps);
  expect_equal_bits(on_three.weights(), expected, "on three servers");
  EXPECT_EQ(second->global_step(), plan.steps);
  EXPECT_EQ(other.step(), plan.steps);
}

TEST(ParameterServerStrategy, ParameterGroupsAndFrozenVariablesAreAsOnOneDevice) {
  Plan plan{.rule = optim::Sgd{.learning_rate = 0.05, .weight_decay = 0.1}.rule()};
  plan.optimizer.groups = {{.names = {"first"}, .learning_rate = 0.2, .weight_decay = 0.0},
                           {.names = {"shift"}, .frozen = true}};
  plan.before_step = [](std::int64_t step, const distribute::Optimizer& optimizer) {
    if (step == 2) optimizer.set_learning_rate(0.01);
  };
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0);
  const Weights weights = trained_by(*strategy, plan);
  expect_equal_bits(weights, expected, "groups");
  EXPECT_TRUE(weights.at("shift").equal(SmallNet(plan.hidden).shift.detach()));
}

TEST(ParameterServerStrategy, NormsOfWholeVariablesAreAsOnOneDevice) {
  Plan plan{.rule = optim::Lars{.learning_rate = 20}.rule()};
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0);
  expect_equal_bits(trained_by(*strategy, plan), on_one_device(plan), "lars");
  plan.optimizer.groups = {{.names = {"shift"}, .layer_adaptation = false}};
  EXPECT_NO_THROW(on_one_device(plan));
  JobOfThreads other(1, 1);
  const auto second = other.join(0);
  const Error error = error_from([&] { trained_by(*second, plan); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_TRUE(mentions(error, "layer_adaptation")) << error.what();
}

TEST(ParameterServerStrategy, AccumulationIsLocalAndAnIncompleteGroupIsFlushed) {
  Plan plan{.steps = 5};
  plan.optimizer.accumulate = 2;
  const Weights expected = on_one_device(plan);
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kSync}) {
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, {.mode = mode});
    expect_equal_bits(trained_by(*strategy, plan), expected, "accumulated");
    EXPECT_EQ(job.step(), 3);
  }
}

TEST(ParameterServerStrategy, FailedStepsPushNothing) {
  const Plan plan;
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0, {.mode = UpdateMode::kSync});
  Training training(*strategy, plan);
  training.steps(0, 3);
  EXPECT_THROW(strategy->run([] { throw std::runtime_error("a user's error"); }),
               std::runtime_error);
  training.steps(3, plan.steps);
  expect_equal_bits(training.weights(), expected, "after an error");
}

TEST(ParameterServerStrategy, WorkersHaveIndicesAndTheirOwnReplicas) {
  JobOfThreads job(1, 3);
  const auto strategy = job.join(2);
  EXPECT_EQ(strategy->name(), "parameter_server");
  EXPECT_EQ(strategy->num_workers(), 3);
  EXPECT_EQ(strategy->worker_index(), 2);
  EXPECT_FALSE(strategy->is_chief());
  EXPECT_EQ(strategy->workers(), nullptr);
  EXPECT_EQ(strategy->num_replicas_in_sync(), 1);
}

TEST(ParameterServerStrategy, ASecondOptimizerIsRefused) {
  JobOfThreads job(1, 1);
  const auto strategy = job.join(0);
  Training training(*strategy, {});
  const Error error =
      error_from([&] { strategy->make_optimizer(training.variables(), optim::Sgd{}.rule(), {}); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_TRUE(mentions(error, "groups")) << error.what();
  EXPECT_NO_THROW(training.steps(0, 1));
}

TEST(ParameterServerStrategy, AWorkerWithAnotherModelIsRefusedNamingTheVariable) {
  JobOfThreads job(1, 2);
  const auto chief = job.join(0);
  Training training(*chief, {});
  training.steps(0, 1);
  const auto worker = job.join(1);
  Training other(*worker, {.hidden = 12});
  const Error error = error_from([&] { other.step(0); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "first")) << error.what();
  EXPECT_EQ(job.step(), 1);
}

TEST(ParameterServerStrategy, AWorkerInAnotherModeIsRefused) {
  JobOfThreads job(1, 2);
  const auto chief = job.join(0);
  Training training(*chief, {});
  training.steps(0, 1);
  const auto worker = job.join(1, {.mode = UpdateMode::kSync});
  Training other(*worker, {});
  EXPECT_EQ(error_from([&] { other.step(0); }).code(), ErrorCode::kFailedPrecondition);
}

Error refusal(const cluster::ClusterConfig& cluster, const ParameterServerOptions& options = {}) {
  return error_from([&] { const ParameterServerStrategy strategy(cluster, options); });
}

TEST(ParameterServerStrategy, ErrorsForOtherTasksSayWhatRunsThere) {
  cluster::ClusterConfig server = config_of(cluster_of(1, 2), 0);
  server.task = {.job = "ps", .index = 0};
  server.rank = -1;
  const Error of_server = refusal(server);
  EXPECT_EQ(of_server.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(of_server, "Server")) << of_server.what();
  EXPECT_TRUE(mentions(of_server, "brigade ps")) << of_server.what();

  server.task = {.job = "evaluator", .index = 0};
  const Error of_evaluator = refusal(server);
  EXPECT_EQ(of_evaluator.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(of_evaluator, "checkpoints")) << of_evaluator.what();
}

TEST(ParameterServerStrategy, AClusterWithoutServersIsRefused) {
  const cluster::ClusterSpec spec(
      std::map<std::string, std::vector<std::string>>{{"worker", {"127.0.0.1:1000"}}});
  const Error error = refusal(config_of(spec, 0));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "\"ps\"")) << error.what();
  EXPECT_TRUE(mentions(error, "this test")) << error.what();
}

TEST(ParameterServerStrategy, OptionsThatDoNotSuitTheModeAreRefused) {
  JobOfThreads job(1, 2);
  const std::vector<std::pair<ParameterServerOptions, std::string>> cases = {
      {{.mode = UpdateMode::kAsync, .staleness = 1}, "staleness is 1"},
      {{.mode = UpdateMode::kBounded, .staleness = -1}, "staleness is -1"},
      {{.mode = UpdateMode::kAsync, .backup_workers = 1}, "backup_workers is 1"},
      {{.mode = UpdateMode::kSync, .backup_workers = -1}, "backup_workers is -1"},
      {{.mode = UpdateMode::kSync, .backup_workers = 2}, "0 to 1"},
      {{.mode = UpdateMode::kSync, .staleness_aware = true}, "staleness_aware"}};
  for (const auto& [options, text] : cases) {
    const Error error = error_from([&, &given = options] { job.join(0, given); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_TRUE(mentions(error, text)) << error.what();
  }
}

TEST(ParameterServerStrategy, NeedsAConnectionToEachServer) {
  JobOfThreads job(1, 1);
  const Error error = error_from([&] {
    const ParameterServerStrategy strategy(config_of(cluster_of(2, 1), 0), job.servers().connect());
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "1 connections")) << error.what();
}

}  // namespace
}  // namespace brigade::ps
