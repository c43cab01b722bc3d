#include "brigade/distribute/strategies/mirrored_strategy.h"

namespace brigade::distribute {

namespace {

StrategyParts parts_of(const MirroredOptions& options) {
  StrategyParts parts = mirrored_parts(
      "mirrored",
      choose_devices(options.devices, {.threads_per_cpu = options.threads_per_replica,
                                       .logical_gpus_per_card = options.logical_gpus_per_card,
                                       .allow_oversubscription = options.allow_oversubscription}));
  parts.synchronizer = with_cross_device_ops(options.cross_device_ops, parts.synchronizer);
  parts.seed = options.seed;
  parts.placement = options.placement;
  parts.timeout = options.timeout;
  return parts;
}

}  // namespace

MirroredStrategy::MirroredStrategy(MirroredOptions options) : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
