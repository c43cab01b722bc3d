#include "brigade/slim/deployment_config.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/device_functions.h"

namespace brigade::slim::model_deploy {

namespace {

constexpr const char* kCpu = "/device:CPU:0";

void check(const DeploymentOptions& options) {
  check_argument(options.num_clones >= 1,
                 base::str_cat("num_clones is ", options.num_clones, " and must be positive."));
  check_argument(options.num_replicas >= 1,
                 base::str_cat("num_replicas is ", options.num_replicas, " and must be positive."));
  check_argument(options.num_ps_tasks >= 0,
                 base::str_cat("num_ps_tasks is ", options.num_ps_tasks,
                               " and must be 0 (no parameter servers) or positive."));
  check_argument(
      options.num_replicas == 1 || options.num_ps_tasks >= 1,
      base::str_cat("When using replicas num_ps_tasks must be positive; num_replicas is ",
                    options.num_replicas, " and num_ps_tasks ", options.num_ps_tasks, "."));
  if (options.num_ps_tasks > 0) {
    check_argument(!options.worker_job_name.empty(),
                   "Must specify worker_job_name when using replicas.");
    check_argument(!options.ps_job_name.empty(),
                   "Must specify ps_job_name when using parameter server.");
  }
  check_argument(options.replica_id >= 0 && options.replica_id < options.num_replicas,
                 base::str_cat("replica_id must be less than num_replicas; they are ",
                               options.replica_id, " and ", options.num_replicas, "."));
}

}  // namespace

DeploymentConfig::DeploymentConfig(DeploymentOptions options) : options_(std::move(options)) {
  check(options_);
}

std::string DeploymentConfig::worker_device() const {
  return options_.num_ps_tasks > 0 ? "/job:" + options_.worker_job_name : "";
}

std::string DeploymentConfig::ps_device() const {
  return options_.num_ps_tasks > 0 ? "/job:" + options_.ps_job_name : "";
}

void DeploymentConfig::check_clone(int clone_index) const {
  check_argument(clone_index >= 0 && clone_index < options_.num_clones,
                 base::str_cat("clone_index must be less than num_clones; they are ", clone_index,
                               " and ", options_.num_clones, "."));
}

std::string DeploymentConfig::clone_device(int clone_index) const {
  check_clone(clone_index);
  if (options_.clone_on_cpu) return worker_device() + kCpu;
  if (options_.num_clones == 1) return worker_device();
  return base::str_cat(worker_device(), "/device:GPU:", clone_index);
}

std::string DeploymentConfig::clone_scope(int clone_index) const {
  check_clone(clone_index);
  return options_.num_clones == 1 ? "" : base::str_cat("clone_", clone_index);
}

std::string DeploymentConfig::optimizer_device() const {
  return worker_device() + kCpu;
}

std::string DeploymentConfig::inputs_device() const {
  return worker_device() + kCpu;
}

std::optional<std::string> DeploymentConfig::caching_device() const {
  if (options_.num_ps_tasks == 0) return std::nullopt;
  return worker_device() + kCpu;
}

device::DeviceFunction DeploymentConfig::variables_device() const {
  device::PlacementStrategy round_robin;
  if (options_.num_ps_tasks > 0) round_robin = device::round_robin_strategy(options_.num_ps_tasks);
  return [ps = ps_device(), round_robin](const device::PlacementRequest& request) -> std::string {
    if (request.kind != device::PlacedKind::kVariable || !request.inner.empty())
      return request.inner;
    if (!round_robin) return kCpu;
    return base::str_cat(ps, "/task:", round_robin(request), kCpu);
  };
}

}  // namespace brigade::slim::model_deploy
