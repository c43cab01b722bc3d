#include "brigade/distribute/strategy_parts.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

std::vector<device::Device> choose_devices(const std::vector<std::string>& names,
                                           const device::DiscoveryOptions& discovery) {
  if (!names.empty()) return device::resolve_devices(names, discovery);
  std::vector<device::Device> gpus = device::available_gpus(discovery);
  return gpus.empty() ? device::available_devices(discovery) : gpus;
}

StrategyParts mirrored_parts(std::string name, std::vector<device::Device> devices) {
  using variables::StorageSharing;
  const auto cpus = std::ranges::count_if(devices, &device::Device::is_cpu);
  check_argument(cpus == 0 || cpus == std::ssize(devices),
                 base::str_cat("The devices of the strategy ", name,
                               " mix CPUs and GPUs, and the slowest would limit all; use one "
                               "kind."));
  if (cpus == 0) return {.name = std::move(name), .devices = std::move(devices)};
  return {.name = std::move(name),
          .devices = std::move(devices),
          .storage = variables::make_flat_storage_factory(StorageSharing::kOneStorage),
          .synchronizer = cpus > 1 ? make_sharded_synchronizer : make_replica_synchronizer};
}

}  // namespace brigade::distribute
