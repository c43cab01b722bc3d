#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/regularizers.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/sync_replicas_optimizer.h"
#include "brigade/ps/testing/job_of_threads.h"
#include "brigade/slim/learning.h"
#include "brigade/slim/model_deploy.h"
#include "brigade/variables/get_variable.h"

namespace brigade::slim::model_deploy {
namespace {

namespace losses = layers::v1::losses;
using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using ps::ParameterServerStrategy;
using ps::SyncReplicasOptimizer;
using ps::UpdateMode;
using ps::testing::cluster_of;
using ps::testing::JobOfThreads;
using variables::get_variable;

const optim::Sgd kSgd{.learning_rate = 0.1};

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

data::Dataset<at::Tensor> batches(std::int64_t first, std::int64_t count, std::int64_t size) {
  return input::from_tensor_slices(rows(first, count)).batch(size);
}

at::Tensor loss_of(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return (x * w + b).square().sum(1).mean();
}

/// A regularized weight, and a bias.
void linear_model(const at::Tensor& x) {
  const at::Tensor w =
      get_variable("w", {{3}}, {.dtype = at::kDouble, .regularizer = layers::l2_regularizer(0.3)})
          .local();
  const at::Tensor b = get_variable("b", {{3}}, {.dtype = at::kDouble}).local();
  losses::add_loss(loss_of(x, w, b));
}

/// The values of all variables, in one tensor.
at::Tensor values_of(const DeployedModel& model) {
  std::vector<at::Tensor> values;
  for (const variables::Variable& each : model.train_op.variables()) values.push_back(each.read());
  return at::cat(values);
}

/// The values after a pass over the data, and the sum of the losses.
at::Tensor trained(const DeployedModel& model) {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  while (const auto loss = model.train_op()) sum += *loss;
  return at::cat({values_of(model), sum});
}

DeploymentConfig clones(int count, int ps_tasks) {
  return DeploymentConfig({.num_clones = count, .clone_on_cpu = true, .num_ps_tasks = ps_tasks});
}

TEST(Deployment, OnServersTrainsAsInOneProcess) {
  for (const int count : {1, 2}) {
    const at::Tensor expected =
        trained(deploy(clones(count, 0), linear_model, batches(0, 24, 4), kSgd));
    for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kSync}) {
      JobOfThreads job(2, 1);
      const auto strategy = job.join(0, {.devices = cpus(count).devices, .mode = mode});
      const auto scope = strategy->scope();
      const auto model = deploy(clones(count, 2), linear_model, batches(0, 24, 4), kSgd);
      EXPECT_EQ(&model.strategy(), strategy.get());
      EXPECT_EQ(model.clones().size(), static_cast<std::size_t>(count));
      EXPECT_TRUE(at::allclose(trained(model), expected, 1e-12, 1e-12)) << count << " clones";
      EXPECT_EQ(job.step(), 24 / 4 / count);
    }
  }
}

TEST(Deployment, VariablesAreOnTheServersRoundRobin) {
  JobOfThreads job(2, 1);
  const auto strategy = job.join(0);
  const auto scope = strategy->scope();
  const auto model = deploy(
      clones(1, 2),
      [](const at::Tensor& x) {
        linear_model(x);
        const auto device = device::with_device("/job:ps/task:1");
        const at::Tensor c = get_variable("c", {{3}}, {.dtype = at::kDouble}).local();
        losses::add_loss(c.square().sum());
      },
      batches(0, 8, 4), kSgd);
  std::vector<std::string> devices;
  for (const variables::Variable& each : model.train_op.variables())
    devices.push_back(each.name() + " " + each.requested_device());
  EXPECT_EQ(devices, (std::vector<std::string>{"w /job:ps/task:0/device:CPU:0",
                                               "b /job:ps/task:1/device:CPU:0",
                                               "c /job:ps/task:1/device:CPU:0"}));
  EXPECT_TRUE(model.train_op().has_value());
}

TEST(Deployment, SynchronousReplicasApplyTheMeanOfTheirGradients) {
  JobOfThreads job(2, 2);
  std::atomic<int> ended = 0;
  job.run({.mode = UpdateMode::kSync}, [&](ParameterServerStrategy& strategy) {
    const auto scope = strategy.scope();
    const int replica = strategy.worker_index();
    const auto model = deploy(
        DeploymentConfig(
            {.clone_on_cpu = true, .replica_id = replica, .num_replicas = 2, .num_ps_tasks = 2}),
        linear_model, batches(4 * replica, 4, 4), kSgd);
    const at::Tensor before = values_of(model).clone();
    const auto total_of = [](int worker, const at::Tensor& values) {
      const at::Tensor w = values.narrow(0, 0, 3);
      return loss_of(rows(4 * worker, 4), w, values.narrow(0, 3, 3)) + 0.3 * 0.5 * w.square().sum();
    };
    const at::Tensor leaf = before.clone().requires_grad_();
    ((total_of(0, leaf) + total_of(1, leaf)) / 2).backward();

    const auto loss = model.train_op();
    ASSERT_TRUE(loss.has_value());
    EXPECT_NEAR(loss->item<double>(), total_of(replica, before).item<double>(), 1e-12)
        << "a replica reports its own loss";
    EXPECT_TRUE(at::allclose(values_of(model), before - 0.1 * leaf.grad(), 1e-12, 1e-12));
    ++ended;
  });
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(job.step(), 1);
}

TEST(Deployment, LearningTrainsReplicasWithASyncOptimizer) {
  constexpr std::int64_t kSteps = 5;
  const SyncReplicasOptimizer optimizer(kSgd, {.replicas_to_aggregate = 2});
  JobOfThreads job(2, 2);
  std::atomic<int> ended = 0;
  job.run(optimizer.strategy_options(cluster_of(2, 2)), [&](ParameterServerStrategy& strategy) {
    const auto scope = strategy.scope();
    const auto model = deploy(DeploymentConfig({.clone_on_cpu = true,
                                                .replica_id = strategy.worker_index(),
                                                .num_replicas = 2,
                                                .num_ps_tasks = 2}),
                              linear_model, batches(0, 80, 4), optimizer);
    learning::TrainOptions options{.number_of_steps = kSteps, .log_every_n_steps = 0};
    options.sync_optimizer = true;
    if (!strategy.is_chief()) options.role = train::SessionRole::kWorker;
    EXPECT_TRUE(learning::train(model.train_op, options).has_value());
    EXPECT_EQ(strategy.global_step(), kSteps);
    ++ended;
  });
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(job.step(), kSteps);
}

TEST(Deployment, LearningRefusesASyncOptimizerOfAnotherMode) {
  JobOfThreads job(1, 1);
  const auto strategy = job.join(0);
  const auto scope = strategy->scope();
  const auto model = deploy(clones(1, 1), linear_model, batches(0, 8, 4), kSgd);
  learning::TrainOptions options{.number_of_steps = 1, .log_every_n_steps = 0};
  options.sync_optimizer = true;
  const Error error = error_from([&] { learning::train(model.train_op, options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "UpdateMode::kSync")) << error.what();
}

TEST(Deployment, LearningRefusesADelayedStartOfSynchronousReplicas) {
  JobOfThreads job(1, 1);
  const auto strategy = job.join(0, {.mode = UpdateMode::kSync});
  const auto scope = strategy->scope();
  const auto model = deploy(clones(1, 1), linear_model, batches(0, 8, 4), kSgd);
  learning::TrainOptions options{.number_of_steps = 1, .log_every_n_steps = 0};
  options.startup_delay_steps = 1;
  const Error error = error_from([&] { learning::train(model.train_op, options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "startup_delay_steps")) << error.what();
}

TEST(Deployment, AConfigThatDisagreesWithTheStrategyIsRefused) {
  JobOfThreads job(2, 2);
  const auto strategy = job.join(0);
  const auto scope = strategy->scope();
  const DeploymentOptions right{.clone_on_cpu = true, .num_replicas = 2, .num_ps_tasks = 2};
  std::vector<std::pair<DeploymentOptions, std::string>> cases(5, {right, ""});
  cases[0].first.num_ps_tasks = 1;
  cases[0].second = "num_ps_tasks is 1";
  cases[1].first.num_replicas = 3;
  cases[1].second = "num_replicas is 3";
  cases[2].first.replica_id = 1;
  cases[2].second = "replica_id is 1";
  cases[3].first.num_clones = 2;
  cases[3].second = "num_clones is 2";
  cases[4].first.ps_job_name = "shelf";
  cases[4].second = "ps_job_name";
  for (const auto& [options, words] : cases) {
    const Error error = error_from([&, &given = options] {
      create_clones(DeploymentConfig(given), linear_model, batches(0, 8, 4));
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << words;
    EXPECT_TRUE(mentions(error, words)) << error.what();
  }
  EXPECT_NO_THROW(create_clones(DeploymentConfig(right), linear_model, batches(0, 8, 4)));
}

}  // namespace
}  // namespace brigade::slim::model_deploy
