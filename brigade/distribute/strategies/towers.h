#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/distribute/strategy.h"
#include "brigade/variables/name_scope.h"

namespace brigade::distribute {

/// What a tower's call of `input_fn` gives.
enum class TowerInput {
  kBatchEach,  ///< a batch of its own: the input is asked once a tower
  kSlices      ///< its slice of one batch, which is asked for once a step
};

struct TowerOptions {
  /// A tower on each. Empty: every GPU, or without one every core.
  std::vector<std::string> devices = {};
  /// Where variables and optimizer slots live and the update runs. A GPU pays if the towers' GPUs
  /// reach its memory directly (`brigade devices` shows that).
  std::string controller = "cpu:0";
  TowerInput input = TowerInput::kBatchEach;
  /// Groups, accumulation.
  OptimizerOptions optimizer = {};
  std::uint64_t seed = 0;
  int threads_per_tower = 1;
  device::Oversubscription oversubscription = device::Oversubscription::kRefuse;
  device::PlacementOptions placement = {};
};

/// The strategy that runs towers: central storage, under the name "towers".
std::unique_ptr<Strategy> make_tower_strategy(const TowerOptions& options);

/// What stands around a tower's pass: the name scope `tower_0/`, and a device scope with variables
/// on the controller and everything else on the tower's device.
///
/// Thread-safety: the tower's thread.
class [[nodiscard]] TowerScope {
 public:
  TowerScope(const ReplicaContext& context, const Strategy& strategy);

 private:
  variables::NameScope names_;
  device::DeviceScope devices_;
};

/// The strategy's "global_step" (see variables::get_or_create_global_step).
variables::Variable make_global_step(Strategy& strategy);

/// A optimizer of the trainable ones among `variables` that counts `global_step`.
Optimizer make_tower_optimizer(Strategy& strategy, std::span<const variables::Variable> variables,
                               const optim::UpdateRulePtr& rule, const TowerOptions& options,
                               const variables::Variable& global_step);

}  // namespace brigade::distribute
