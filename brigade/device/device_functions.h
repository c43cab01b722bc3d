#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "brigade/device/device_scope.h"

/// Ready-made device functions for `with_device`.
namespace brigade::device {

/// Places variables on `controller` and everything else on `device`, whatever the inner scopes
/// chose; for the towers of in-graph replication. An empty controller leaves variables to the outer
/// scopes. Throws kInvalidArgument for malformed names.
DeviceFunction assign_to_device(const std::string& device, const std::string& controller = "");

/// Chooses a task for each variable. Called in the order in which variables are created. The
/// strategies below may be called from any thread; copies share state.
using PlacementStrategy = std::function<int(const PlacementRequest& variable)>;

/// Round robin: 0, 1, ..., tasks-1, 0, ... Throws kInvalidArgument unless `tasks` is positive.
PlacementStrategy round_robin_strategy(int tasks);

/// The task with the least load so far, the lowest index among equals; `load` returns the load of a
/// variable. Throws kInvalidArgument unless `tasks` is positive and `load` is given. TensorFlow:
/// contrib.training.GreedyLoadBalancingStrategy.
PlacementStrategy greedy_load_balancing_strategy(
    int tasks, std::function<std::int64_t(const PlacementRequest&)> load);

/// A variable's bytes; throws kInvalidArgument, naming it, if the size is not known. TensorFlow:
/// byte_size_load_fn.
std::int64_t byte_size_load(const PlacementRequest& variable);

/// The same task for the same name, independent of the order (a hash of seed and name). Throws
/// kInvalidArgument unless `tasks` is positive. TensorFlow: contrib.training.RandomStrategy, with
/// another hash.
PlacementStrategy random_strategy(int tasks, std::uint64_t seed = 0);

/// Options of `replica_device_setter`.
struct ReplicaDeviceSetterOptions {
  /// How many parameter-server tasks there are. 0: the result is an empty function, which changes
  /// nothing.
  int ps_tasks = 0;
  /// The device of variables, to which the task is added, and that of everything else.
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  /// The inner scopes' choice is kept, field by field, and completed. If false, the setter changes
  /// nothing where the inner scopes chose anything.
  bool merge_devices = true;
  /// Default: round robin. It must return tasks in 0 .. ps_tasks-1 (else kOutOfRange).
  PlacementStrategy ps_strategy = {};
};
/// Places variables on the parameter servers round robin, everything else on the worker. The inner
/// scopes' choice takes precedence; a variable that they place in another job does not count.
/// Copies of the result share the round-robin state, and any thread may call them. Throws
/// kInvalidArgument for a negative number of tasks and malformed names. TensorFlow:
/// tf.train.replica_device_setter.
DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options);

}  // namespace brigade::device
