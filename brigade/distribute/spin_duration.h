#pragma once

#include <chrono>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::distribute {

/// How long the replicas on these devices may poll for one another before they sleep: a while where
/// each has a core of its own, not at all where they share cores, since a poller would keep the one
/// it waits for from running.
std::chrono::microseconds spin_duration(const std::vector<device::Device>& devices);

}  // namespace brigade::distribute
