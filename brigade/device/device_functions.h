#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/device/device_scope.h"

/// Ready-made device functions for `with_device`.
namespace brigade::device {

/// Variables on `controller`, everything else on `device`, whatever the scopes inside chose: what
/// the towers of in-graph replication use. An empty controller leaves variables to the outer
/// scopes. Throws kInvalidArgument for malformed names.
DeviceFunction assign_to_device(const std::string& device, const std::string& controller = "");

/// Chooses a task for each variable. Called in the order in which variables are made. Those made
/// here may be called from any thread; copies of one share its state.
using PlacementStrategy = std::function<int(const PlacementRequest& variable)>;

/// One task after the other: 0, 1, ..., tasks-1, 0, ... Throws kInvalidArgument unless `tasks` is
/// positive.
PlacementStrategy round_robin_strategy(int tasks);

/// The task with the least load so far, the lowest index among equals; `load` says what a variable
/// adds. Throws kInvalidArgument unless `tasks` is positive and `load` is given. TensorFlow:
/// contrib.training.GreedyLoadBalancingStrategy.
PlacementStrategy greedy_load_balancing_strategy(
    int tasks, std::function<std::int64_t(const PlacementRequest&)> load);

/// A variable's bytes; throws kInvalidArgument, naming it, where the size is not known. TensorFlow:
/// byte_size_load_fn.
std::int64_t byte_size_load(const PlacementRequest& variable);

/// The same task for the same name whatever the order (a hash of seed and name). Throws
/// kInvalidArgument unless `tasks` is positive. TensorFlow: contrib.training.RandomStrategy, whose
/// hash is another.
PlacementStrategy random_strategy(int tasks, std::uint64_t seed = 0);

struct ReplicaDeviceSetterOptions {
  /// How many parameter-server tasks there are. 0: the result is empty, which changes nothing.
  int ps_tasks = 0;
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  /// kYes: what the scopes inside chose is kept, field by field, and completed. kNo: where they
  /// chose anything, that stands alone, and the setter has no say.
  enum class Merge { kYes, kNo } merge_devices = Merge::kYes;
  /// Default: round robin. The tasks that it returns must lie in 0 .. ps_tasks-1 (kOutOfRange).
  PlacementStrategy ps_strategy = {};
};
/// Variables on the parameter servers in turn, everything else on the worker. What the scopes
/// inside chose goes before; a variable that they put into another job takes no turn. Copies of the
/// result share the turns, and any thread may call them. Throws kInvalidArgument for a negative
/// number of tasks and malformed names. TensorFlow: tf.train.replica_device_setter.
DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options);

}  // namespace brigade::device
