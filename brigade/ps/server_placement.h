#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "brigade/device/device_functions.h"

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
};

/// Makes the strategy that assigns variables to so many servers. `device::round_robin_strategy` is
/// one, `greedy_by_bytes` another; for `device::random_strategy`, write
///   [](int servers) { return device::random_strategy(servers); }
using ServerPlacement = std::function<device::PlacementStrategy(int servers)>;

/// Each variable goes to the server with the fewest bytes so far: for variables of very different
/// sizes. TensorFlow: GreedyLoadBalancingStrategy with byte_size_load_fn.
device::PlacementStrategy greedy_by_bytes(int servers);

/// Assigns the variables, in the order of their creation. It depends on nothing else, so that all
/// workers of a job come to the same assignment; a `placement` of one's own must do so, too. The
/// default is rotation: the first variable on server 0, the second on 1. Throws kInvalidArgument
/// unless `servers` is positive, kOutOfRange if `placement` chooses a server that does not exist.
/// TensorFlow: tf.train.replica_device_setter.
std::vector<PlacedVariable> place_variables(
    std::span<const VariableSize> variables, int servers,
    const ServerPlacement& placement = device::round_robin_strategy);

}  // namespace brigade::ps
