#include "brigade/distribute/strategies/mirrored_strategy.h"

#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

StrategyParts parts_of(const MirroredOptions& options) {
  check_argument(options.logical_replicas == 0 || options.cross_device_ops == nullptr,
                 "MirroredOptions::cross_device_ops adds gradients in an order of its own, and "
                 "logical_replicas promises one order: give one of the two.");
  const std::vector<device::Device> devices =
      choose_devices(options.devices, {.threads_per_cpu = options.threads_per_replica,
                                       .logical_gpus_per_card = options.logical_gpus_per_card,
                                       .allow_oversubscription = options.allow_oversubscription});
  StrategyParts parts = mirrored_parts(
      "mirrored", devices,
      logical_replicas_of(options.logical_replicas, static_cast<int>(devices.size())));
  parts.synchronizer = with_cross_device_ops(options.cross_device_ops, parts.synchronizer);
  parts.seed = options.seed;
  parts.placement = options.placement;
  parts.timeout = options.timeout;
  return parts;
}

}  // namespace

MirroredStrategy::MirroredStrategy(MirroredOptions options) : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
