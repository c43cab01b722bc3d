#include "brigade/distribute/strategies/central_storage_strategy.h"

#include "brigade/base/log.h"
#include "brigade/device/peer_access.h"
#include "brigade/distribute/spin_duration.h"

namespace brigade::distribute {

namespace {

std::vector<device::Device> choose_devices(const CentralStorageOptions& options) {
  const device::DiscoveryOptions discovery{.threads_per_cpu = options.threads_per_replica,
                                           .logical_gpus_per_card = options.logical_gpus_per_card,
                                           .oversubscription = options.oversubscription};
  if (!options.compute_devices.empty())
    return device::resolve_devices(options.compute_devices, discovery);
  std::vector<device::Device> devices = device::available_gpus(discovery);
  return devices.empty() ? device::available_devices(discovery) : devices;
}

device::Device choose_controller(const CentralStorageOptions& options,
                                 const std::vector<device::Device>& devices) {
  if (options.parameter_device.empty() && devices.size() == 1) return devices.front();
  const std::string name = options.parameter_device.empty() ? "cpu:0" : options.parameter_device;
  // It runs no replica and needs no core, so it may share one.
  const device::DiscoveryOptions discovery{.logical_gpus_per_card = options.logical_gpus_per_card,
                                           .oversubscription = device::Oversubscription::kAllow};
  return device::resolve_devices({name}, discovery).front();
}

StrategyParts parts_of(const CentralStorageOptions& options) {
  std::vector<device::Device> devices = choose_devices(options);
  const device::Device controller = choose_controller(options, devices);
  if (const std::string warning = device::controller_warning(controller, devices);
      !warning.empty()) {
    base::log_warning(warning);
  }
  // A single replica on the controller's device has nothing to transfer and no peer to wait for.
  const bool alone = devices.size() == 1 &&
                     devices.front().torch_device == controller.torch_device &&
                     options.caching == variables::Caching::kWhereNeeded;
  const auto spin = spin_duration(devices);
  return {.name = options.name,
          .devices = std::move(devices),
          .sharing = variables::StorageSharing::kController,
          .controller = controller,
          .caching = options.caching,
          .update = alone ? StrategyParts::Update::kReplicas : StrategyParts::Update::kController,
          .cross_device_ops = options.cross_device_ops,
          .seed = options.seed,
          .placement = options.placement,
          .timeout = options.timeout,
          .spin = spin};
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy(CentralStorageOptions options)
    : Strategy(parts_of(options)) {}

}  // namespace brigade::distribute
