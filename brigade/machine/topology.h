#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "brigade/machine/core_set.h"

namespace brigade::machine {

/// The processor as far as this process may use it.
///
/// Thread-safety: a value.
struct Topology {
  /// The processor's model, for reports: `AMD EPYC 9B14`; "unknown processor" where the system does
  /// not say.
  std::string processor;
  /// The cores that the process's affinity mask allows, on which a thread may be pinned.
  CoreSet cores;
  /// The same cores, those that share one physical core together; one group for each physical core.
  std::vector<CoreSet> physical_cores;
  /// What the control group allows, in cores' worth of time; unset without a limit.
  std::optional<double> cpu_limit;

  /// How many threads can run at full speed: the allowed cores, or the whole part of `cpu_limit`
  /// where that is less; at least 1.
  int usable_cores() const;
  /// Whether threads may be pinned. A time limit below the number of allowed cores leaves open
  /// *which* cores: pinning would crowd the containers of one machine onto the same first ones.
  bool may_pin() const;
  /// The allowed cores in the order in which to hand them out: first one of each physical core,
  /// then the second ones.
  std::vector<int> cores_by_distance() const;
};

/// Looks at this machine with hwloc. Takes milliseconds: keep the result. Never throws: what cannot
/// be found out is filled with the modest answer (every allowed core a physical one).
Topology discover_topology();

/// The model name in a file like /proc/cpuinfo, or "unknown processor".
std::string processor_name(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace brigade::machine
