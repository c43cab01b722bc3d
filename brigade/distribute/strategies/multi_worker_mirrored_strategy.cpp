#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

#include "brigade/cluster/resolver.h"

namespace brigade::distribute {

namespace {

StrategyParts parts_of(std::shared_ptr<cluster::Membership> membership,
                       const MultiWorkerMirroredOptions& options) {
  const device::DiscoveryOptions discovery{
      .threads_per_cpu = options.threads_per_replica,
      .allow_oversubscription = options.allow_oversubscription};
  std::vector<std::string> names = options.devices;
  if (names.empty() && device::available_gpus(discovery).empty()) names = {"cpu:0"};
  StrategyParts parts = mirrored_parts("multi_worker_mirrored", choose_devices(names, discovery));
  const bool on_cpu = parts.devices.front().is_cpu();
  parts.workers =
      make_worker_group(std::move(membership), {.replicas = static_cast<int>(parts.devices.size()),
                                                .on_cpu = on_cpu,
                                                .seed = options.seed,
                                                .communication = options.communication,
                                                .join = options.join});
  if (parts.workers && on_cpu) parts.synchronizer = make_worker_synchronizer;
  parts.seed = options.seed;
  parts.placement = options.placement;
  parts.timeout = options.timeout;
  return parts;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options)
    : MultiWorkerMirroredStrategy(cluster::resolve_cluster(), std::move(options)) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const cluster::ClusterConfig& cluster,
                                                         MultiWorkerMirroredOptions options)
    : MultiWorkerMirroredStrategy(rpc::join(cluster, options.join), options) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(
    std::shared_ptr<cluster::Membership> membership, MultiWorkerMirroredOptions options)
    : Strategy(parts_of(std::move(membership), options)) {}

}  // namespace brigade::distribute
