#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/host_lookup.h"

namespace brigade::cluster {

/// What answers at a task's address.
enum class Reachability {
  kReachable,    ///< something listens there
  kRefused,      ///< the host answers, nothing listens: as it should be before the start
  kNoSuchHost,   ///< the name is not known
  kTimedOut,     ///< no answer in time: a host that is off, or a firewall that drops
  kUnreachable,  ///< the system knows no way there
};

/// Whether a process of this host could listen at an address of this host.
enum class PortState {
  kFree,
  kTaken,      ///< something has the port
  kForbidden,  ///< below 1024, and this user may not
};

/// "reachable", "refused", "no such host", "timed out", "unreachable".
std::string_view to_string(Reachability reachability);
/// "free", "taken", "forbidden".
std::string_view to_string(PortState state);

struct AddressReport {
  Task task;
  std::string address;
  Reachability reachability = Reachability::kTimedOut;
  /// Only for an address of this host.
  std::optional<PortState> port = std::nullopt;
  /// The system's reason, where it gives one.
  std::string detail = {};

  /// Whether a job could start with this address: its host is there, and if it is this one, the
  /// port can be had or is already listened on.
  bool is_good() const;
};

/// Looks up and connects to every address of `cluster`, all at once, for `timeout` at most; sends
/// nothing. In the order of jobs and indices. Thread-safety: a function without state.
std::vector<AddressReport> check_addresses(const ClusterSpec& cluster,
                                           std::chrono::milliseconds timeout,
                                           const HostLookup& lookup = system_lookup());

}  // namespace brigade::cluster
