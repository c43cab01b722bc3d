#pragma once

#include <string>

namespace brigade::cluster {

/// Identifies where a process runs, by what its kernel reports. Host names do not: cloned machines
/// and containers may have the same name, and one machine may have several. Equal identities are
/// necessary but not quite sufficient: two machines that were restored from one memory image are
/// equal too, so shared memory is verified separately (SharedSegment).
///
/// Thread-safety: a value.
struct HostIdentity {
  /// The boot id of the running kernel: the same for all containers of one machine.
  std::string kernel = {};
  /// The process namespace, in which process ids are unique.
  std::string processes = {};
  /// The network namespace, whose processes have one loopback interface.
  std::string network = {};

  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// The identity of this thread, which is that of its process unless the thread has entered another
/// network namespace. Without a boot id, the host's name is used; a namespace that cannot be read
/// is empty.
HostIdentity this_host_identity();

/// Whether both use the same process ids, so that they can share memory.
bool same_process_namespace(const HostIdentity& one, const HostIdentity& other);
/// Whether both reach each other over the loopback interface.
bool same_network_namespace(const HostIdentity& one, const HostIdentity& other);

}  // namespace brigade::cluster
