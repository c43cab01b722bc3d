#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/resolver.h"

namespace brigade::distribute {

namespace {

/// What would make results depend on the layout, or on more than the number of logical replicas.
void check_logical(const MultiWorkerMirroredOptions& options) {
  if (options.logical_replicas == 0) return;
  check_argument(options.communication.wire == comm::WireDtype::kFull, "logical_replicas is ",
                 options.logical_replicas,
                 " and the wire dtype is narrower than the gradients: what is rounded would depend "
                 "on the number of workers. Use the full wire dtype.");
  check_argument(
      options.communication.transport != comm::Transport::kNccl, "logical_replicas is ",
      options.logical_replicas,
      " and the transport is nccl, which adds in an order of its own: use another transport.");
}

void check_audit(const MultiWorkerMirroredOptions& options) {
  check_argument(options.audit_every >= 0, "audit_every is ", options.audit_every,
                 "; it must be 0 (no audits) or more.");
  check_argument(options.audit_every == 0 || options.logical_replicas > 0, "audit_every is ",
                 options.audit_every,
                 " without logical_replicas, with which workers compute the same bits: set "
                 "logical_replicas, or leave out audit_every.");
}

/// Audits compare the bits of two workers.
void check_can_audit(const MultiWorkerMirroredOptions& options, const WorkerGroup* workers,
                     bool on_cpu) {
  if (options.audit_every == 0) return;
  check_argument(workers != nullptr, "audit_every is ", options.audit_every,
                 " and there is one worker: no other can compute its gradients again. Use several "
                 "workers, or leave out audit_every.");
  check_argument(
      on_cpu, "audit_every is ", options.audit_every,
      " and the replicas are on GPUs, which do not promise equal bits: leave out audit_every.");
}

StrategyParts parts_of(std::shared_ptr<cluster::Membership> membership,
                       const MultiWorkerMirroredOptions& options) {
  check_logical(options);
  check_audit(options);
  const device::DiscoveryOptions discovery{
      .threads_per_cpu = options.threads_per_replica,
      .logical_gpus_per_card = options.logical_gpus_per_card,
      .allow_oversubscription = options.allow_oversubscription};
  std::vector<std::string> names = options.devices;
  if (names.empty() && device::available_gpus(discovery).empty()) names = {"cpu:0"};
  const std::vector<device::Device> devices = choose_devices(names, discovery);
  const bool on_cpu = devices.front().is_cpu();
  const std::shared_ptr<const WorkerGroup> workers =
      make_worker_group(std::move(membership), {.devices = static_cast<int>(devices.size()),
                                                .logical_replicas = options.logical_replicas,
                                                .threads_per_replica = options.threads_per_replica,
                                                .audit_every = options.audit_every,
                                                .on_cpu = on_cpu,
                                                .seed = options.seed,
                                                .communication = options.communication,
                                                .join = options.join});
  check_can_audit(options, workers.get(), on_cpu);
  StrategyParts parts = mirrored_parts(
      "multi_worker_mirrored", devices,
      workers ? LogicalReplicas{.count = options.logical_replicas,
                                .of_device = workers->replicas_of_device}
              : logical_replicas_of(options.logical_replicas, static_cast<int>(devices.size())));
  parts.workers = workers;
  if (parts.workers) {
    parts.synchronizer = on_cpu ? make_worker_synchronizer : make_replica_synchronizer;
    if (!on_cpu)
      parts.storage = variables::make_flat_storage_factory(variables::StorageSharing::kOneCopyEach);
  }
  parts.audit_every = options.audit_every;
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
