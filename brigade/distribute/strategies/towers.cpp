#include "brigade/distribute/strategies/towers.h"

#include "brigade/base/strings.h"
#include "brigade/device/device_functions.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/variables/get_variable.h"

namespace brigade::distribute {

std::unique_ptr<Strategy> make_tower_strategy(const TowerOptions& options) {
  return std::make_unique<CentralStorageStrategy>(
      CentralStorageOptions{.compute_devices = options.devices,
                            .parameter_device = options.controller,
                            .threads_per_replica = options.threads_per_replica,
                            .allow_oversubscription = options.allow_oversubscription,
                            .seed = options.seed,
                            .name = "towers",
                            .placement = options.placement});
}

TowerScope::TowerScope(const ReplicaContext& context, const Strategy& strategy)
    : names_(variables::require_graph("a tower"), base::str_cat("tower_", context.replica_id())),
      devices_(device::assign_to_device(context.device().name.to_string(),
                                        strategy.parameter_device().name.to_string())) {}

variables::Variable make_global_step(Strategy& strategy) {
  const auto scope = strategy.scope();
  return variables::get_or_create_global_step();
}

Optimizer make_tower_optimizer(Strategy& strategy, std::span<const variables::Variable> variables,
                               const optim::UpdateRulePtr& rule, const TowerOptions& options,
                               const variables::Variable& global_step) {
  OptimizerOptions chosen = options.optimizer;
  chosen.global_step = global_step;
  return strategy.make_optimizer(variables, rule, chosen);
}

}  // namespace brigade::distribute
