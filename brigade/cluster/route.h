#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "brigade/cluster/host_lookup.h"

namespace brigade::cluster {

/// The address of this machine from which the system would send to `host`, a name or an address.
/// Sends nothing. Returns nothing if the only route is the loopback interface, or the look-up of
/// the name takes longer than `timeout`.
std::optional<std::string> source_address(
    const std::string& host, std::chrono::milliseconds timeout = std::chrono::seconds(5),
    const HostLookup& lookup = system_lookup());

}  // namespace brigade::cluster
