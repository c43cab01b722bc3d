#include "brigade/machine/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/machine/affinity.h"
#include "brigade/machine/cgroup.h"

namespace brigade::machine {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;
using HwlocBitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, FreeBitmap>;

HwlocTopology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  HwlocTopology topology(raw);
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

CoreSet core_set_from(hwloc_const_bitmap_t bitmap) {
  std::vector<int> cores;
  for (int core = hwloc_bitmap_first(bitmap); core >= 0; core = hwloc_bitmap_next(bitmap, core)) {
    cores.push_back(core);
    if (hwloc_bitmap_weight(bitmap) < 0 && cores.size() > 65535) break;  // an infinite bitmap
  }
  return CoreSet(std::move(cores));
}

// The union of the masks of all threads of the process, so that the result is the same on a pinned
// thread.
CoreSet process_cores(hwloc_topology_t topology) {
  const HwlocBitmap mask(hwloc_bitmap_alloc());
  if (!mask || hwloc_get_cpubind(topology, mask.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return thread_affinity();
  return core_set_from(mask.get())
      .intersection(core_set_from(hwloc_topology_get_topology_cpuset(topology)));
}

std::vector<CoreSet> physical_cores_of(hwloc_topology_t topology, const CoreSet& allowed) {
  std::vector<CoreSet> groups;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    CoreSet group = core_set_from(core->cpuset).intersection(allowed);
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

bool cover(const std::vector<CoreSet>& groups, const CoreSet& cores) {
  std::size_t count = 0;
  for (const auto& group : groups) count += group.size();
  return count == cores.size();
}

CoreSet all_cores() {
  std::vector<int> cores;
  for (int core = 0; core < static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
       ++core) {
    cores.push_back(core);
  }
  return CoreSet(std::move(cores));
}

}  // namespace

int Topology::usable_cores() const {
  const double most = static_cast<double>(std::max<std::size_t>(1, cores.size()));
  return std::max(1, static_cast<int>(std::floor(std::min(most, cpu_limit.value_or(most)))));
}

bool Topology::may_pin() const {
  return !cores.empty() && static_cast<std::size_t>(usable_cores()) == cores.size();
}

std::vector<int> Topology::cores_by_distance() const {
  std::vector<int> order;
  for (std::size_t round = 0; order.size() < cores.size(); ++round) {
    const std::size_t before = order.size();
    for (const auto& group : physical_cores) {
      if (round < group.size()) order.push_back(group.cores()[round]);
    }
    if (order.size() == before) return cores.cores();
  }
  return order;
}

Topology discover_topology() {
  Topology found{.processor = processor_name(),
                 .cores = {},
                 .physical_cores = {},
                 .cpu_limit = cgroup_cpu_limit()};
  if (const HwlocTopology topology = load_topology()) {
    found.cores = process_cores(topology.get());
    found.physical_cores = physical_cores_of(topology.get(), found.cores);
  }
  if (found.cores.empty()) found.cores = thread_affinity();
  if (found.cores.empty()) found.cores = all_cores();
  if (!cover(found.physical_cores, found.cores)) {
    found.physical_cores.clear();
    for (const int core : found.cores.cores()) found.physical_cores.push_back(CoreSet({core}));
  }
  return found;
}

std::string processor_name(const std::filesystem::path& cpuinfo) {
  std::ifstream stream(cpuinfo);
  for (std::string line; std::getline(stream, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos ||
        base::trim(std::string_view(line).substr(0, colon)) != "model name")
      continue;
    const std::string_view name = base::trim(std::string_view(line).substr(colon + 1));
    if (!name.empty()) return std::string(name);
  }
  return "unknown processor";
}

CoreSet cores_near_pci_device(std::string_view bus_id, const std::filesystem::path& devices) {
  if (bus_id.empty() || bus_id.find('/') != std::string_view::npos) return CoreSet();
  std::ifstream stream(devices / bus_id / "local_cpulist");
  std::string list;
  std::getline(stream, list);
  try {
    return CoreSet::parse(list);
  } catch (const Error&) {  // not what Linux writes
    return CoreSet();
  }
}

}  // namespace brigade::machine
