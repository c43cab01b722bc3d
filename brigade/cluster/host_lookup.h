#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace brigade::cluster {

/// Returns the IP addresses of a host, as text. Throws kNotFound, with the reason, if it has none.
/// Called on several threads at the same time; may take any time.
using HostLookup = std::function<std::vector<std::string>(const std::string& host)>;

/// The system's look-up: /etc/hosts, DNS and whatever else is configured.
HostLookup system_lookup();

/// The result of the look-up of one host.
struct HostAddresses {
  std::vector<std::string> addresses = {};
  /// Why there are none; empty while there is no answer.
  std::string failure = {};
};

/// Looks up all hosts at the same time and returns the known results after `timeout` at the latest.
/// The system's look-up cannot be interrupted: one that hangs stays on a detached thread, which
/// refers to nothing of the caller.
std::map<std::string, HostAddresses> look_up(const std::set<std::string>& hosts,
                                             std::chrono::milliseconds timeout,
                                             const HostLookup& lookup = system_lookup());

/// The address of this machine from which the system would send to `host`, a name or an address.
/// Sends nothing. Returns nothing if the only route is the loopback interface, or the look-up of
/// the name takes longer than `timeout`.
std::optional<std::string> source_address(
    const std::string& host, std::chrono::milliseconds timeout = std::chrono::seconds(5),
    const HostLookup& lookup = system_lookup());

}  // namespace brigade::cluster
