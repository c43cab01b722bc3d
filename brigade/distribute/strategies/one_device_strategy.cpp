#include "brigade/distribute/strategies/one_device_strategy.h"

namespace brigade::distribute {

namespace {

std::string choose_device(const OneDeviceOptions& options) {
  if (!options.device.empty()) return options.device;
  return device::available_gpus().empty() ? "cpu:0" : "gpu:0";
}

StrategyParts parts_of(const OneDeviceOptions& options) {
  const std::vector<device::Device> devices = device::resolve_devices(
      {choose_device(options)}, {.threads_per_cpu = options.threads_per_replica,
                                 .allow_oversubscription = options.allow_oversubscription});
  const LogicalReplicas logical = logical_replicas_of(options.logical_replicas, 1);
  StrategyParts parts = logical.count == 0 ? StrategyParts{.name = "one_device", .devices = devices}
                                           : mirrored_parts("one_device", devices, logical);
  parts.seed = options.seed;
  parts.placement = options.placement;
  return parts;
}

}  // namespace

OneDeviceStrategy::OneDeviceStrategy(OneDeviceOptions options) : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
