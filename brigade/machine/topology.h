#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/machine/core_set.h"

namespace brigade::machine {

/// The processors that this process may use.
///
/// Thread-safety: a value.
struct Topology {
  /// The processor's model, for reports: `AMD EPYC 9B14`; "unknown processor" if the system does
  /// not report it.
  std::string processor;
  /// The cores that the process's affinity mask allows, on which a thread may be pinned.
  CoreSet cores;
  /// The same cores, grouped by physical core.
  std::vector<CoreSet> physical_cores;
  /// The CPU limit of the cgroup, in cores; unset without a limit.
  std::optional<double> cpu_limit;

  /// The number of threads that can run at full speed: the number of allowed cores, or the integer
  /// part of `cpu_limit` if that is less; at least 1.
  int usable_cores() const;
  /// Whether threads may be pinned. Not with a CPU limit below the number of allowed cores: such a
  /// limit does not say *which* cores, so all containers of a machine would use the same first
  /// cores.
  bool may_pin() const;
  /// The allowed cores in the order of assignment: first one of each physical core, then the second
  /// ones.
  std::vector<int> cores_by_distance() const;
};

/// Examines this machine with hwloc. Takes milliseconds, so keep the result. Never throws: unknown
/// values get defaults (every allowed core is a physical core).
Topology discover_topology();

/// The cores near a PCI device, such as a GPU (`0000:65:00.0`): those of its NUMA node. Empty if
/// the system does not say.
CoreSet cores_near_pci_device(std::string_view bus_id,
                              const std::filesystem::path& devices = "/sys/bus/pci/devices");

/// The model name in a file like /proc/cpuinfo, or "unknown processor".
std::string processor_name(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace brigade::machine
