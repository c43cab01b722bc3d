#include "brigade/slim/model_deploy.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/device.h"
#include "brigade/device/device_scope.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/variables/graph.h"

namespace brigade::slim::model_deploy {

namespace {

void check_is_local(const DeploymentConfig& config) {
  if (config.num_ps_tasks() == 0) return;
  throw Error(
      ErrorCode::kUnimplemented,
      base::str_cat("This deployment has variables on ", config.num_ps_tasks(), " tasks of ",
                    config.ps_device(),
                    ": devices of other tasks have names, but running on them is not implemented "
                    "yet. Deploy with num_ps_tasks = 0 and num_replicas = 1."));
}

std::vector<std::string> names_of_devices(const DeploymentConfig& config) {
  const bool on_cpu = config.clone_on_cpu() || device::available_gpus().empty();
  std::vector<std::string> names;
  for (int i = 0; i < config.num_clones(); ++i)
    names.push_back(base::str_cat(on_cpu ? "cpu:" : "gpu:", i));
  return names;
}

std::unique_ptr<distribute::Strategy> make_strategy(const DeploymentConfig& config,
                                                    const CloneOptions& options) {
  check_is_local(config);
  return std::make_unique<distribute::CentralStorageStrategy>(
      distribute::CentralStorageOptions{.compute_devices = names_of_devices(config),
                                        .parameter_device = config.optimizer_device(),
                                        .threads_per_replica = options.threads_per_clone,
                                        .allow_oversubscription = true,
                                        .seed = options.seed,
                                        .timeout = options.timeout,
                                        .name = "model_deploy"});
}

}  // namespace

CloneSet::CloneSet(const DeploymentConfig& config, const CloneOptions& options)
    : options_(options),
      defaults_(layers::current_arg_scope()),
      strategy_(make_strategy(config, options)) {
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

double CloneSet::weight(const distribute::ReplicaContext* context) const {
  if (options_.weight == CloneWeight::kEqual || context == nullptr)
    return 1.0 / static_cast<double>(clones_.size());
  const auto local = context->local_examples();
  const auto global = context->global_examples();
  if (!local || !global || *global == 0) return 1.0;
  return static_cast<double>(*local) / static_cast<double>(*global);
}

}  // namespace brigade::slim::model_deploy
