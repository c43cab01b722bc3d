#pragma once

#include <chrono>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::distribute {

/// How long replicas on these devices spin while they wait for one another, before they sleep: 200
/// us if each has its own core; 0 if they share cores, because a spinning replica would keep the
/// one that it waits for from running.
std::chrono::microseconds spin_duration(const std::vector<device::Device>& devices);

}  // namespace brigade::distribute
