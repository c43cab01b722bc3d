#pragma once

#include <string>

namespace brigade::cluster {

/// Where a process runs, as its kernel tells it. Names of hosts are for people: cloned machines and
/// containers share one, and one machine has several. Equal parts are necessary, and nearly
/// sufficient: two machines that were restored from one memory image have the same, so whoever
/// shares memory proves it (SharedSegment).
///
/// Thread-safety: a value.
struct HostIdentity {
  /// The running kernel, from one boot to the next: one machine, whatever its containers are
  /// called.
  std::string kernel = {};
  /// The process namespace, in which a process id has a meaning.
  std::string processes = {};
  /// The network namespace, whose processes have one loopback interface.
  std::string network = {};

  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// This thread's, which is its process's unless the thread has left for another network. Where the
/// system does not tell the boot, the host's name stands in for it; a namespace that cannot be read
/// is empty.
HostIdentity this_host_identity();

/// The name that this process's host has there, for messages; "localhost" where it has none.
std::string host_name();

/// Whether a process id of one is the same process to the other, so that memory can be shared.
bool same_process_namespace(const HostIdentity& one, const HostIdentity& other);
/// Whether they reach each other over the loopback interface.
bool same_network_namespace(const HostIdentity& one, const HostIdentity& other);

}  // namespace brigade::cluster
