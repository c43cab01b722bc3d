#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/device/device_functions.h"
#include "brigade/device/placement.h"

namespace brigade::ps {

/// A variable of the job, and the server that has it.
struct PlacedVariable {
  std::string name;
  int server = 0;
  bool is_trainable = true;
};

/// A variable to be assigned to a server.
struct VariableSize {
  std::string name;
  std::int64_t bytes = 0;
  bool is_trainable = true;
  /// Chosen already, by a device scope: the strategy is not asked.
  std::optional<int> server = std::nullopt;
};

/// Makes the strategy that assigns variables to so many servers. `device::round_robin_strategy` is
/// one, `greedy_by_bytes` another; for `device::random_strategy`, write
///   [](int servers) { return device::random_strategy(servers); }
using ServerPlacement = std::function<device::PlacementStrategy(int servers)>;

/// Each variable goes to the server with the fewest bytes so far: for variables of very different
/// sizes. TensorFlow: GreedyLoadBalancingStrategy with byte_size_load_fn.
device::PlacementStrategy greedy_by_bytes(int servers);

/// The servers of a job, as device scopes name them.
struct ServerTasks {
  /// [server]: its index in the job "ps". Empty: the server's own.
  std::vector<int> indices = {};
  /// What happens if a scope names a task that does not exist.
  device::MissingDevice missing = device::MissingDevice::kFallBack;

  /// The server's task, as in the placement log: "/job:ps/task:1".
  std::string name(int server) const;
};

/// The server that device scopes chose for a variable: of "/job:ps/task:1" the one with the
/// index 1. Unset if they chose none: no task, or one of another job. A task that does not exist is
/// kNotFound, naming those that do; with kFallBack a warning, and unset.
std::optional<int> requested_server(const std::string& device, const std::string& variable,
                                    int servers, const ServerTasks& tasks);

/// `device::replica_device_setter` with as many tasks as the cluster has in the job of
/// `options.ps_device`; without any it changes nothing. TensorFlow:
/// replica_device_setter(cluster=).
device::DeviceFunction replica_device_setter(const cluster::ClusterSpec& cluster,
                                             device::ReplicaDeviceSetterOptions options = {});

/// Assigns the variables, in the order of their creation. It depends on nothing else, so that all
/// workers of a job compute the same assignment; your own `placement` must do so, too. The
/// default is rotation: the first variable on server 0, the second on 1. Throws kInvalidArgument
/// unless `servers` is positive, kOutOfRange if `placement` chooses a server that does not exist.
/// TensorFlow: tf.train.replica_device_setter.
std::vector<PlacedVariable> place_variables(
    std::span<const VariableSize> variables, int servers,
    const ServerPlacement& placement = device::round_robin_strategy);

}  // namespace brigade::ps
