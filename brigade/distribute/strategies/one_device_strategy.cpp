#include "brigade/distribute/strategies/one_device_strategy.h"

namespace brigade::distribute {

namespace {

std::string choose_device(const OneDeviceOptions& options) {
  if (!options.device.empty()) return options.device;
  return device::available_gpus().empty() ? "cpu:0" : "gpu:0";
}

StrategyParts parts_of(const OneDeviceOptions& options) {
  return {.name = "one_device",
          .devices = device::resolve_devices(
              {choose_device(options)}, {.threads_per_cpu = options.threads,
                                         .allow_oversubscription = options.allow_oversubscription}),
          .seed = options.seed,
          .placement = options.placement};
}

}  // namespace

OneDeviceStrategy::OneDeviceStrategy(OneDeviceOptions options) : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
