#include "brigade/slim/deployment_config.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

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
}  // namespace brigade::slim::model_deploy
