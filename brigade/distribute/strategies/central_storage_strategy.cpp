#include "brigade/distribute/strategies/central_storage_strategy.h"

#include "brigade/base/log.h"
#include "brigade/device/peer_access.h"

namespace brigade::distribute {

namespace {

device::Device choose_controller(const CentralStorageOptions& options,
                                 const std::vector<device::Device>& devices) {
  if (options.parameter_device.empty() && devices.size() == 1) return devices.front();
  const std::string name = options.parameter_device.empty() ? "cpu:0" : options.parameter_device;
  // It runs no replica and needs no core, so it may share one.
  const device::DiscoveryOptions discovery{.logical_gpus_per_card = options.logical_gpus_per_card,
                                           .allow_oversubscription = true};
  return device::resolve_devices({name}, discovery).front();
}

StrategyParts parts_of(const CentralStorageOptions& options) {
  std::vector<device::Device> devices = choose_devices(
      options.compute_devices, {.threads_per_cpu = options.threads_per_replica,
                                .logical_gpus_per_card = options.logical_gpus_per_card,
                                .allow_oversubscription = options.allow_oversubscription});
  const device::Device controller = choose_controller(options, devices);
  const std::string warning = device::controller_warning(controller, devices);
  if (!warning.empty()) base::log_warning(warning);
  // A single replica on the controller's device has nothing to transfer and no peer to wait for.
  const bool alone = devices.size() == 1 &&
                     devices.front().torch_device == controller.torch_device &&
                     options.caching == variables::Caching::kWhereNeeded;
  return {.name = options.name,
          .devices = std::move(devices),
          .storage = variables::make_flat_storage_factory(
              variables::StorageSharing::kController,
              {.device = controller, .caching = options.caching}),
          .synchronizer = alone ? SynchronizerFactory(make_replica_synchronizer)
                                : controller_synchronizer(options.cross_device_ops),
          .seed = options.seed,
          .placement = options.placement,
          .timeout = options.timeout};
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy(CentralStorageOptions options)
    : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
