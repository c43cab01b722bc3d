#include "brigade/slim/model_deploy.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/regularizers.h"
#include "brigade/optim/sgd.h"
#include "brigade/slim/learning.h"
#include "brigade/variables/get_variable.h"

namespace brigade::slim::model_deploy {

namespace {

/// The error message for these options; empty if there is none.
std::string refusal(DeploymentOptions options) {
  try {
    DeploymentConfig config(std::move(options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

std::string variable_on(const device::DeviceFunction& function, const std::string& inner = "") {
  return function({.name = "v", .kind = device::PlacedKind::kVariable, .inner = inner});
}

TEST(DeploymentConfig, ASingleCloneHasNoScopeAndAnyDevice) {
  const DeploymentConfig config;
  EXPECT_EQ(config.clone_scope(0), "");
  EXPECT_EQ(config.clone_device(0), "");
  EXPECT_EQ(config.optimizer_device(), "/device:CPU:0");
  EXPECT_EQ(config.inputs_device(), "/device:CPU:0");
  EXPECT_EQ(config.caching_device(), std::nullopt);
  EXPECT_EQ(variable_on(config.variables_device()), "/device:CPU:0");
  EXPECT_EQ(config.worker_device(), "");
  EXPECT_EQ(config.ps_device(), "");
}

TEST(DeploymentConfig, EachCloneHasAGpuAndAScope) {
  const DeploymentConfig config({.num_clones = 2});
  EXPECT_EQ(config.clone_device(0), "/device:GPU:0");
  EXPECT_EQ(config.clone_device(1), "/device:GPU:1");
  EXPECT_EQ(config.clone_scope(0), "clone_0");
  EXPECT_EQ(config.clone_scope(1), "clone_1");
}

TEST(DeploymentConfig, ClonesOnCpuShareItsName) {
  const DeploymentConfig config({.num_clones = 2, .clone_on_cpu = true});
  EXPECT_EQ(config.clone_device(0), "/device:CPU:0");
  EXPECT_EQ(config.clone_device(1), "/device:CPU:0");
}

TEST(DeploymentConfig, WithParameterServersNamesHaveJobs) {
  const DeploymentConfig config(
      {.num_clones = 2, .num_ps_tasks = 2, .worker_job_name = "trainer", .ps_job_name = "shelf"});
  EXPECT_EQ(config.clone_device(1), "/job:trainer/device:GPU:1");
  EXPECT_EQ(config.optimizer_device(), "/job:trainer/device:CPU:0");
  EXPECT_EQ(config.inputs_device(), "/job:trainer/device:CPU:0");
  EXPECT_EQ(config.caching_device(), "/job:trainer/device:CPU:0");
  EXPECT_EQ(config.ps_device(), "/job:shelf");
  EXPECT_EQ(DeploymentConfig({.num_ps_tasks = 1}).clone_device(0), "/job:worker");
}

TEST(DeploymentConfig, VariablesGoToTheParameterServersRoundRobin) {
  const auto function = DeploymentConfig({.num_ps_tasks = 2}).variables_device();
  EXPECT_EQ(variable_on(function), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(variable_on(function), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(variable_on(function, "/device:GPU:3"),
            "/device:GPU:3");  // not counted in the round robin
  EXPECT_EQ(function({.name = "conv", .kind = device::PlacedKind::kLayer}), "");
  EXPECT_EQ(variable_on(function), "/job:ps/task:0/device:CPU:0");
}

TEST(DeploymentConfig, RefusesInvalidArguments) {
  EXPECT_NE(refusal({.num_replicas = 2}).find("num_ps_tasks must be positive"), std::string::npos);
  EXPECT_NE(refusal({.replica_id = 1}).find("replica_id must be less than num_replicas"),
            std::string::npos);
  EXPECT_NE(refusal({.num_ps_tasks = 1, .worker_job_name = ""}).find("worker_job_name"),
            std::string::npos);
  EXPECT_NE(refusal({.num_ps_tasks = 1, .ps_job_name = ""}).find("ps_job_name"), std::string::npos);
  EXPECT_NE(refusal({.num_clones = 0}).find("num_clones is 0"), std::string::npos);
  EXPECT_NE(refusal({.num_replicas = 0}), "");
  EXPECT_NE(refusal({.num_ps_tasks = -1}), "");
  EXPECT_NE(refusal({.replica_id = -1}), "");
  EXPECT_EQ(refusal({.replica_id = 1, .num_replicas = 2, .num_ps_tasks = 1}), "");
}

TEST(DeploymentConfig, RefusesCloneIndicesOutOfRange) {
  const DeploymentConfig config({.num_clones = 2});
  EXPECT_THROW(config.clone_device(2), Error);
  EXPECT_THROW(config.clone_scope(2), Error);
  EXPECT_THROW(config.clone_scope(-1), Error);
}

}  // namespace

namespace {

namespace losses = layers::v1::losses;
using testing::ElementsAre;
using variables::get_variable;

const CloneOptions kSlices{.input = distribute::TowerInput::kSlices,
                           .timeout = std::chrono::seconds(60)};
const optim::Sgd kSgd{.learning_rate = 0.1};

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

data::Dataset<at::Tensor> batches(std::int64_t count, std::int64_t size) {
  return input::from_tensor_slices(rows(0, count)).batch(size);
}

DeploymentConfig clones(int count) {
  return DeploymentConfig({.num_clones = count, .clone_on_cpu = true});
}

/// Two losses and a regularized weight.
void linear_model(const at::Tensor& x) {
  const variables::VariableOptions decayed{.dtype = at::kDouble,
                                           .regularizer = layers::l2_regularizer(0.3)};
  const at::Tensor w = get_variable("w", {{3}}, decayed).local();
  losses::add_loss((x * w - 1).square().sum(1).mean());
  losses::add_loss((x * w).sum(1).square().mean() * 0.5, "second");
}

/// The weight, and the sum of the total losses, after all steps.
at::Tensor trained(const DeployedModel& model) {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  while (const auto loss = model.train_op()) sum += *loss;
  return at::cat({model.train_op.variables().front().read(), sum});
}

at::Tensor trained(int count, const CloneOptions& options, std::int64_t rows, std::int64_t batch) {
  return trained(deploy(clones(count), linear_model, batches(rows, batch), kSgd, options));
}

TEST(ModelDeploy, ClonesOnSlicesEqualOneCloneAndRegularizeOnce) {
  const at::Tensor one = trained(1, kSlices, 24, 8);
  EXPECT_TRUE(at::allclose(one, trained(2, kSlices, 24, 8), 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(one, trained(4, kSlices, 24, 8), 1e-12, 1e-12));
}

TEST(ModelDeploy, TheFirstStepMatchesAHandCalculation) {
  const auto model = deploy(clones(2), linear_model, batches(4, 2), kSgd);
  const at::Tensor w = model.train_op.variables().front().read();
  const auto loss_of = [&](const at::Tensor& x, const at::Tensor& weight) {
    return (x * weight - 1).square().sum(1).mean() + (x * weight).sum(1).square().mean() * 0.5;
  };
  const at::Tensor leaf = w.clone().requires_grad_();
  const at::Tensor total =
      (loss_of(rows(0, 2), leaf) + loss_of(rows(2, 2), leaf)) / 2 + 0.3 * 0.5 * leaf.square().sum();
  total.backward();
  const auto loss = model.train_op();
  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(loss->item<double>(), total.item<double>(), 1e-12);
  EXPECT_TRUE(
      at::allclose(model.train_op.variables().front().read(), w - 0.1 * leaf.grad(), 1e-12, 1e-12));
}

TEST(ModelDeploy, EqualWeightsMatchSlimAndWeightsByExamplesAreExact) {
  CloneOptions exact = kSlices;
  exact.weight = CloneWeight::kByExamples;
  const at::Tensor one = trained(1, kSlices, 10, 5);
  EXPECT_TRUE(at::allclose(one, trained(3, exact, 10, 5), 1e-12, 1e-12));
  EXPECT_FALSE(at::allclose(one, trained(3, kSlices, 10, 5), 1e-6, 1e-6));
}

TEST(ModelDeploy, RegularizationCanBeDisabled) {
  CloneOptions plain = kSlices;
  plain.regularization = false;
  const auto loss = [](const CloneOptions& options) {
    return deploy(clones(2), linear_model, batches(8, 8), kSgd, options).train_op()->item<double>();
  };
  EXPECT_GT(loss(kSlices), loss(plain));
}

TEST(ModelDeploy, EndOfDataInTheMiddleOfAStepLosesNoBatch) {
  const auto model = deploy(clones(2), linear_model, batches(12, 4), kSgd);
  EXPECT_TRUE(model.train_op().has_value());
  const auto last = model.train_op();  // the second clone has nothing left
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(std::isfinite(last->item<double>()));
  EXPECT_FALSE(model.train_op().has_value());
}

TEST(ModelDeploy, AllClonesHaveTheMovingStatisticsOfTheFirst) {
  const auto model = deploy(
      clones(2),
      [](const at::Tensor& x) {
        const at::Tensor w = get_variable("w", {{3}}, {.dtype = at::kDouble}).local();
        losses::add_loss((layers::batch_norm(x, {.decay = 0.5}) * w).square().mean());
      },
      batches(8, 4), kSgd);
  model.train_op();
  const auto scope = model.strategy().scope();
  const auto mean = variables::get_variables("model_variables", "BatchNorm/moving_mean").front();
  const at::Tensor expected = rows(0, 4).mean(0) * 0.5;
  EXPECT_TRUE(at::allclose(mean.read(), expected, 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(mean.component(1), expected, 1e-12, 1e-12));
}

TEST(ModelDeploy, ClonesKnowTheirScopesAndDevices) {
  std::vector<std::string> scopes(2);
  std::vector<std::string> devices(2);
  const auto model = deploy(
      clones(2),
      [&](const at::Tensor& x) {
        linear_model(x);
        const auto* context = distribute::current_replica_context();
        const auto replica = context == nullptr ? 0u : static_cast<unsigned>(context->id);
        scopes[replica] = variables::require_graph("test").name_scope();
        devices[replica] = device::requested_device({.name = "layer"});
      },
      batches(8, 4), kSgd);
  model.train_op();
  EXPECT_THAT(scopes, ElementsAre("clone_0/", "clone_1/"));
  EXPECT_THAT(devices, ElementsAre("/device:CPU:0", "/device:CPU:1"));
  ASSERT_EQ(model.clones().size(), 2u);
  EXPECT_EQ(model.clones()[1].scope, "clone_1/");
  EXPECT_EQ(model.clones()[1].device, "/device:CPU:0");
  EXPECT_EQ(model.clones()[1].placed, "cpu:1");
  EXPECT_EQ(model.strategy().parameter_device().name.to_string(), "cpu:0");
}

TEST(ModelDeploy, ClonesRunAtTheSameTime) {
  const auto model = deploy(clones(3),
                            [](const at::Tensor& x) {
                              linear_model(x);
                              // Would wait until its deadline if the clones ran one after the
                              // other.
                              if (const auto* context = distribute::current_replica_context())
                                context->barrier();
                            },
                            batches(6, 2), kSgd, {.timeout = std::chrono::seconds(60)});
  EXPECT_TRUE(model.train_op().has_value());
}

TEST(ModelDeploy, CreatesTheVariablesBeforeTheOptimizerIsChosen) {
  auto created = create_clones(clones(2), linear_model, batches(8, 4));
  const auto scope = created.strategy().scope();
  ASSERT_EQ(variables::trainable_variables().size(), 1u);
  variables::trainable_variables().front().assign(at::zeros({3}, at::kDouble));
  const auto model = optimize_clones(std::move(created), kSgd);
  EXPECT_NEAR(model.train_op()->item<double>(), 3.0, 1e-12);  // both batches are there
  EXPECT_FALSE(model.train_op().has_value());
}

TEST(ModelDeploy, LearningTrainsADeployedModel) {
  const auto model = deploy(clones(2), linear_model, batches(16, 4), kSgd);
  EXPECT_TRUE(learning::train(model.train_op, {.log_every_n_steps = 0}).has_value());
  EXPECT_EQ(model.train_op.global_step(), 2);
}

ErrorCode refusal(const DeploymentConfig& config, const CloneFunction<at::Tensor>& model_fn) {
  try {
    deploy(config, model_fn, batches(4, 4), kSgd).train_op();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(ModelDeploy, RefusesServersWithoutAStrategyAndModelsWithoutALoss) {
  // Without a strategy that has them.
  EXPECT_EQ(refusal(DeploymentConfig({.num_ps_tasks = 1}), linear_model),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(refusal(DeploymentConfig({.replica_id = 1, .num_replicas = 2, .num_ps_tasks = 1}),
                    linear_model),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(refusal(clones(1), [](const at::Tensor&) { get_variable("w", {{3}}); }),
            ErrorCode::kFailedPrecondition);
}

}  // namespace

}  // namespace brigade::slim::model_deploy
