#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/distribute/strategy.h"
#include "brigade/variables/graph.h"

namespace brigade::distribute {

/// What a tower gets from `input_fn`.
enum class TowerInput {
  kBatchEach,  ///< a separate batch: `input_fn` is called once per tower
  kSlices      ///< a slice of one batch: `input_fn` is called once per step
};

/// Options of `create_parallel_optimization`.
struct TowerOptions {
  /// The devices that run towers, one tower on each. Empty: every GPU; without a GPU, every core.
  std::vector<std::string> devices = {};
  /// The device of the variables and optimizer slots, which runs the update. A GPU is worthwhile if
  /// the towers' GPUs can access its memory directly (`brigade devices` shows that).
  std::string controller = "cpu:0";
  /// Whether each tower gets its own batch, or a slice of one.
  TowerInput input = TowerInput::kBatchEach;
  /// Parameter groups and gradient accumulation.
  OptimizerOptions optimizer = {};
  /// The seed of all randomness.
  std::uint64_t seed = 0;
  /// The number of threads and cores of each tower on CPU. It changes the last bits of results.
  int threads_per_replica = 1;
  /// Allows more towers on CPU than cores without a warning; see `device::DiscoveryOptions`.
  bool allow_oversubscription = false;
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
};

/// The strategy that runs towers: CentralStorageStrategy with the name "towers".
std::unique_ptr<Strategy> make_tower_strategy(const TowerOptions& options);

/// The scopes of a tower's forward pass: the name scope `tower_0/`, and a device scope that puts
/// variables on the controller and everything else on the tower's device.
///
/// Thread-safety: used by the tower's thread only.
class [[nodiscard]] TowerScope {
 public:
  TowerScope(const ReplicaContext& context, const Strategy& strategy);

 private:
  variables::NameScope names_;
  device::DeviceScope devices_;
};

/// The strategy's "global_step" (see variables::get_or_create_global_step).
variables::Variable make_global_step(Strategy& strategy);

/// An optimizer of the trainable variables among `variables`, which increments `global_step`.
Optimizer make_tower_optimizer(Strategy& strategy, std::span<const variables::Variable> variables,
                               const optim::UpdateRulePtr& rule, const TowerOptions& options,
                               const variables::Variable& global_step);

}  // namespace brigade::distribute
