#include "brigade/distribute/strategies/mirrored_strategy.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/spin_duration.h"

namespace brigade::distribute {

namespace {

std::vector<device::Device> choose_devices(const MirroredOptions& options) {
  const device::DiscoveryOptions discovery{.threads_per_cpu = options.threads_per_replica,
                                           .logical_gpus_per_card = options.logical_gpus_per_card,
                                           .oversubscription = options.oversubscription};
  if (!options.devices.empty()) return device::resolve_devices(options.devices, discovery);
  std::vector<device::Device> devices = device::available_gpus(discovery);
  return devices.empty() ? device::available_devices(discovery) : devices;
}

StrategyParts parts_of(const MirroredOptions& options) {
  std::vector<device::Device> devices = choose_devices(options);
  const auto cpus =
      std::count_if(devices.begin(), devices.end(), [](const auto& d) { return d.is_cpu(); });
  const bool on_cpu = cpus > 0;
  check_argument(!on_cpu || cpus == static_cast<std::ptrdiff_t>(devices.size()),
                 "MirroredStrategy: the devices mix CPUs and GPUs, and the slowest would limit "
                 "all; use one kind.");
  const auto spin = spin_duration(devices);
  return {.name = "mirrored",
          .devices = std::move(devices),
          .sharing = on_cpu ? variables::StorageSharing::kOneStorage
                            : variables::StorageSharing::kOneCopyEach,
          .update = on_cpu ? StrategyParts::Update::kSharded : StrategyParts::Update::kReplicas,
          .cross_device_ops = options.cross_device_ops,
          .seed = options.seed,
          .placement = options.placement,
          .timeout = options.timeout,
          .spin = spin};
}

}  // namespace

MirroredStrategy::MirroredStrategy(MirroredOptions options) : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
