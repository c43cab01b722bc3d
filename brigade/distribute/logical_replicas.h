#pragma once

#include <vector>

namespace brigade::distribute {

/// The logical replicas of a process's devices. A strategy with logical replicas splits batches,
/// draws random numbers, keeps statistics and adds gradients by logical replica, and each device
/// computes a contiguous block of them, one after another. So results depend on the number of
/// logical replicas and not on the devices and processes that compute them.
struct LogicalReplicas {
  int count = 0;                    ///< of all processes; 0: each device has one replica
  std::vector<int> of_device = {};  ///< [device of this process]: how many it computes
};

/// The logical replicas of the devices from `first_device` up to `first_device + local_devices` of
/// `devices`: `count` is divided evenly over all of them in their order, and the first get one
/// more. Nothing for a count of 0. Throws kInvalidArgument for a count that is negative or less
/// than the number of devices, naming both.
LogicalReplicas divide_logical_replicas(int count, int devices, int first_device,
                                        int local_devices);
/// The same for the devices of a single process.
LogicalReplicas logical_replicas_of(int count, int devices);

}  // namespace brigade::distribute
