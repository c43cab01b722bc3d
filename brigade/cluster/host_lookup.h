#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace brigade::cluster {

/// The IP addresses of a host, as text. Throws kNotFound, with the reason, if it has none. Called
/// on several threads at once; may take as long as it likes.
using HostLookup = std::function<std::vector<std::string>(const std::string& host)>;

/// Asks the system: /etc/hosts, DNS and whatever else it is set up for.
HostLookup system_lookup();

/// What became of the look-up of one host.
struct HostAddresses {
  std::vector<std::string> addresses = {};
  /// Why there are none; empty while there is no answer.
  std::string failure = {};
};

/// Looks all hosts up at once and returns after `timeout` at the latest, with what is known by
/// then. The system's look-up cannot be interrupted: one that hangs is left to a thread that holds
/// nothing of the caller's, and ends when it ends.
std::map<std::string, HostAddresses> look_up(const std::set<std::string>& hosts,
                                             std::chrono::milliseconds timeout,
                                             const HostLookup& lookup = system_lookup());

}  // namespace brigade::cluster
