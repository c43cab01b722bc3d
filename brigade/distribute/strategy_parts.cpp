#include "brigade/distribute/strategy_parts.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

/// Several replicas on each device, one after another.
void use_logical_replicas(StrategyParts& parts, const LogicalReplicas& logical) {
  parts.logical_replicas = logical.count;
  std::vector<device::Device> devices;
  std::vector<int> slots;
  for (std::size_t d = 0; d < parts.devices.size(); ++d) {
    const auto count = static_cast<std::size_t>(logical.of_device[d]);
    devices.insert(devices.end(), count, parts.devices[d]);
    slots.insert(slots.end(), count, static_cast<int>(d));
  }
  if (devices.size() > parts.devices.size()) parts.slots = std::move(slots);
  parts.devices = std::move(devices);
}

bool are_on_one_card(const std::vector<device::Device>& devices) {
  return std::ranges::all_of(devices, [&](const device::Device& each) {
    return each.torch_device == devices.front().torch_device;
  });
}

}  // namespace

std::vector<device::Device> choose_devices(const std::vector<std::string>& names,
                                           const device::DiscoveryOptions& discovery) {
  if (!names.empty()) return device::resolve_devices(names, discovery);
  std::vector<device::Device> gpus = device::available_gpus(discovery);
  return gpus.empty() ? device::available_devices(discovery) : gpus;
}

StrategyParts mirrored_parts(std::string name, const std::vector<device::Device>& devices,
                             const LogicalReplicas& logical) {
  using variables::StorageSharing;
  const auto cpus = std::ranges::count_if(devices, &device::Device::is_cpu);
  check_argument(cpus == 0 || cpus == std::ssize(devices), "The devices of the strategy ", name,
                 " mix CPUs and GPUs, and the slowest would limit all; use one kind.");
  StrategyParts parts{.name = std::move(name), .devices = devices};
  if (logical.count > 0) use_logical_replicas(parts, logical);
  if (cpus == 0) {
    if (!parts.slots.empty() || parts.devices.size() == 1) return parts;
    parts.synchronizer = overlapped_synchronizer();
    if (are_on_one_card(parts.devices))
      parts.storage = variables::make_flat_storage_factory(StorageSharing::kOneStorage);
    return parts;
  }
  parts.storage = variables::make_flat_storage_factory(StorageSharing::kOneStorage);
  parts.synchronizer =
      parts.devices.size() > 1 ? make_sharded_synchronizer : make_replica_synchronizer;
  return parts;
}

}  // namespace brigade::distribute
