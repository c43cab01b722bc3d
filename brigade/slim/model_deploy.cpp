#include "brigade/slim/model_deploy.h"

#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/device.h"
#include "brigade/device/device_functions.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/variables/graph.h"

namespace brigade::slim::model_deploy {

namespace {

constexpr const char* kCpu = "/device:CPU:0";
constexpr const char* kServers = "/job:ps";

void check(const DeploymentOptions& options) {
  check_argument(options.num_clones >= 1, "num_clones is ", options.num_clones,
                 " and must be positive.");
  check_argument(options.num_replicas >= 1, "num_replicas is ", options.num_replicas,
                 " and must be positive.");
  check_argument(options.num_ps_tasks >= 0, "num_ps_tasks is ", options.num_ps_tasks,
                 " and must be 0 (no parameter servers) or positive.");
  check_argument(options.num_replicas == 1 || options.num_ps_tasks >= 1,
                 "When using replicas num_ps_tasks must be positive; num_replicas is ",
                 options.num_replicas, " and num_ps_tasks ", options.num_ps_tasks, ".");
  if (options.num_ps_tasks > 0) {
    check_argument(!options.worker_job_name.empty(),
                   "Must specify worker_job_name when using replicas.");
    check_argument(!options.ps_job_name.empty(),
                   "Must specify ps_job_name when using parameter server.");
  }
  check_argument(options.replica_id >= 0 && options.replica_id < options.num_replicas,
                 "replica_id must be less than num_replicas; they are ", options.replica_id,
                 " and ", options.num_replicas, ".");
}

void check_same(std::string_view option, int configured, std::string_view what, int actual) {
  check_argument(configured == actual, "DeploymentConfig: ", option, " is ", configured, ", and ",
                 what, " of the open ParameterServerStrategy is ", actual,
                 ": give both the same cluster, task and devices.");
}

/// The strategy whose scope is open, if it is the one that the config describes.
distribute::Strategy& strategy_with_servers(const DeploymentConfig& config) {
  distribute::Strategy* open = distribute::current_strategy();
  check_state(open != nullptr && open->servers().count > 0, "This deployment has variables on ",
              config.num_ps_tasks(), " tasks of ", config.ps_device(),
              ": deploy it in the scope of a ParameterServerStrategy, which knows the cluster "
              "(`auto scope = strategy.scope();`), or with num_ps_tasks = 0 and num_replicas = 1.");
  check_argument(config.ps_device() == kServers, "DeploymentConfig: ps_job_name names the job ",
                 config.ps_device(),
                 ", and the parameter servers of a ParameterServerStrategy are ", kServers, ".");
  check_same("num_ps_tasks", config.num_ps_tasks(), "the number of servers", open->servers().count);
  check_same("num_replicas", config.num_replicas(), "the number of workers", open->num_workers());
  check_same("replica_id", config.replica_id(), "the worker's index", open->worker_index());
  check_same("num_clones", config.num_clones(), "the number of devices",
             open->num_local_replicas());
  check_argument(!config.clone_on_cpu() || open->devices().front().is_cpu(),
                 "DeploymentConfig: clone_on_cpu is set, and the open ParameterServerStrategy runs "
                 "on GPUs: give it CPUs (ParameterServerOptions::devices).");
  return *open;
}

/// Null if the open one is used.
std::unique_ptr<distribute::Strategy> make_strategy(const DeploymentConfig& config,
                                                    const CloneOptions& options) {
  if (config.num_ps_tasks() > 0) return nullptr;
  const bool on_cpu = config.clone_on_cpu() || device::available_gpus().empty();
  std::vector<std::string> names;
  for (int i = 0; i < config.num_clones(); ++i)
    names.push_back(base::str_cat(on_cpu ? "cpu:" : "gpu:", i));
  return std::make_unique<distribute::CentralStorageStrategy>(
      distribute::CentralStorageOptions{.compute_devices = std::move(names),
                                        .parameter_device = config.optimizer_device(),
                                        .threads_per_replica = options.threads_per_replica,
                                        .allow_oversubscription = true,
                                        .seed = options.seed,
                                        .timeout = options.timeout,
                                        .name = "model_deploy"});
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
                 "clone_index must be less than num_clones; they are ", clone_index, " and ",
                 options_.num_clones, ".");
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

CloneSet::CloneSet(const DeploymentConfig& config, const CloneOptions& options)
    : options_(options),
      defaults_(layers::current_arg_scope()),
      own_strategy_(make_strategy(config, options)),
      strategy_(own_strategy_ ? own_strategy_.get() : &strategy_with_servers(config)) {
  if (config.num_ps_tasks() > 0) variables_device_ = config.variables_device();
  for (int i = 0; i < config.num_clones(); ++i) {
    const std::string scope = config.clone_scope(i);
    clones_.push_back(
        {.scope = scope.empty() ? scope : scope + "/",
         .device = config.clone_device(i),
         .placed = strategy_->devices()[static_cast<std::size_t>(i)].name.to_string()});
  }
}

void CloneSet::run_in_scopes(const std::function<void()>& pass) const {
  const auto* context = distribute::current_replica_context();
  const Clone& clone = clones_[context == nullptr ? 0 : static_cast<std::size_t>(context->id)];
  const auto names = variables::name_scope(clone.scope);
  const auto device = device::with_device(clone.placed);
  const auto variables_device = device::with_device(variables_device_);
  const auto defaults = layers::arg_scope(defaults_);
  pass();
}

at::Tensor CloneSet::total_loss(const std::function<void()>& pass) const {
  namespace losses = layers::v1::losses;
  run_in_scopes(pass);
  const auto* context = distribute::current_replica_context();
  const Clone& clone = clones_[context == nullptr ? 0 : static_cast<std::size_t>(context->id)];
  const std::vector<at::Tensor> clone_losses = losses::get_losses(clone.scope);
  check_state(
      !clone_losses.empty(),
      "The model function of a clone added no loss: call one of slim::losses, or add_loss.");
  at::Tensor total = clone_losses.front();
  for (std::size_t i = 1; i < clone_losses.size(); ++i) total = total + clone_losses[i];
  const double fraction = weight(context);
  if (fraction != 1.0) total = total * fraction;
  const bool regularizes = options_.regularization && (context == nullptr || context->id == 0);
  if (!regularizes) return total;
  for (const at::Tensor& regularization : losses::get_regularization_losses())
    total = total + regularization;
  return total;
}

double CloneSet::weight_of_worker() const {
  const int workers = strategy_->servers().replicas_to_aggregate;
  return workers > 0 ? 1.0 / workers : 1.0;
}

double CloneSet::weight(const distribute::ReplicaContext* context) const {
  if (options_.weight == CloneWeight::kEqual || context == nullptr)
    return 1.0 / static_cast<double>(clones_.size());
  const auto local = context->local_examples();
  const auto global = context->global_examples();
  if (!local || !global || *global == 0) return 1.0;
  return static_cast<double>(*local) / static_cast<double>(*global);
}

}  // namespace brigade::slim::model_deploy
