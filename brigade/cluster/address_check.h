#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/host_lookup.h"

namespace brigade::cluster {

/// The result of a connection attempt to a task's address, from good to bad.
enum class Reachability {
  kReachable,    ///< something listens there
  kRefused,      ///< the host answers, nothing listens: expected before the start
  kTimedOut,     ///< no answer in time: the host is off, or a firewall drops packets
  kUnreachable,  ///< there is no route to the host
  kNoSuchHost,   ///< the host name is unknown
};

/// Whether a process of this host could listen at an address of this host.
enum class PortState {
  kFree,
  kTaken,      ///< in use by another program
  kForbidden,  ///< below 1024, and this user may not
};

/// "reachable", "refused", "no such host", "timed out", "unreachable".
std::string_view to_string(Reachability reachability);
/// "free", "taken", "forbidden".
std::string_view to_string(PortState state);

/// What was found out about the address of one task.
struct AddressReport {
  Task task;
  std::string address;
  Reachability reachability = Reachability::kTimedOut;
  /// Only for an address of this host.
  std::optional<PortState> port = std::nullopt;
  /// The system's reason, if it gives one.
  std::string detail = {};

  /// Whether a job could start with this address: its host answers, and if it is this host, the
  /// port is free or something already listens on it.
  bool is_good() const;
};

/// Looks up and connects to all addresses of `cluster` at the same time, for `timeout` at most;
/// sends nothing. Reports are ordered by job and index. Thread-safety: a function without state.
std::vector<AddressReport> check_addresses(const ClusterSpec& cluster,
                                           std::chrono::milliseconds timeout,
                                           const HostLookup& lookup = system_lookup());

}  // namespace brigade::cluster
