#include "brigade/ps/parameter_server_strategy.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/rank_assignment.h"
#include "brigade/cluster/resolver.h"
#include "brigade/ps/coordinator/phase_coordination.h"
#include "brigade/ps/remote_synchronizer.h"
#include "brigade/ps/server.h"
#include "brigade/ps/server_tasks.h"

namespace brigade::ps {

namespace {

constexpr const char* kServers = "ps";

void check_cluster(const cluster::ClusterConfig& cluster) {
  check_argument(!is_server_task(cluster.task), "This process is ", cluster.task,
                 ", a parameter server, which trains no model: run a Server and its join() there, "
                 "or the command `brigade ps`.");
  check_argument(
      cluster.rank >= 0, "This process is ", cluster.task,
      ", which does not train: ParameterServerStrategy is for the chief and the workers. An "
      "evaluator evaluates checkpoints, with a strategy of its own devices.");
  check_argument(cluster.cluster.num_tasks(kServers) > 0, "The cluster has no job \"ps\" (",
                 cluster.source,
                 "), and ParameterServerStrategy keeps its variables there: list the addresses of "
                 "the parameter servers, or use MultiWorkerMirroredStrategy.");
}

JobConfig job_of(const ParameterServerOptions& options, int workers) {
  const bool is_bounded = options.mode == UpdateMode::kBounded;
  const bool is_sync = options.mode == UpdateMode::kSync;
  check_argument(options.staleness >= 0 && (is_bounded || options.staleness == 0),
                 "ParameterServerOptions::staleness is ", options.staleness,
                 ": it is 0 or more with UpdateMode::kBounded, and 0 otherwise.");
  const bool has_backups = options.backup_workers != 0;
  check_argument(
      !has_backups || (is_sync && options.backup_workers > 0 && options.backup_workers < workers),
      "ParameterServerOptions::backup_workers is ", options.backup_workers,
      ": with UpdateMode::kSync and ", workers, " workers it is 0 to ", workers - 1,
      ", and 0 in other modes.");
  check_argument(!options.staleness_aware || !is_sync,
                 "ParameterServerOptions::staleness_aware is for UpdateMode::kAsync and kBounded: "
                 "with kSync no update is stale.");
  JobConfig job{.mode = options.mode,
                .staleness = options.staleness,
                .staleness_aware = options.staleness_aware};
  if (is_sync)
    job.sync = {.replicas_to_aggregate = workers - options.backup_workers,
                .total_replicas = workers};
  return job;
}

std::vector<std::unique_ptr<ParameterService>> connect_all(const cluster::ClusterConfig& cluster,
                                                           const ParameterServerOptions& options) {
  check_cluster(cluster);
  return connect_to_servers(cluster.cluster, cluster.task, options.key,
                            {.shared_memory = options.shared_memory});
}

/// This task among those that train.
distribute::WorkerIndex worker_of(const cluster::ClusterConfig& cluster,
                                  const ParameterServerOptions& options) {
  if (options.chief == ChiefRole::kTrains)
    return {.index = cluster.rank, .count = cluster.world_size};
  check_argument(options.mode == UpdateMode::kAsync,
                 "With ChiefRole::kCoordinates the workers run a coordinator's functions, each at "
                 "its own pace: the mode is UpdateMode::kAsync.");
  if (cluster.is_chief()) return {};
  return {.index = cluster.rank - 1, .count = cluster.world_size - 1};
}

distribute::StrategyParts strategy_parts(const cluster::ClusterConfig& cluster,
                                         std::vector<std::unique_ptr<ParameterService>> servers,
                                         const ParameterServerOptions& options) {
  check_cluster(cluster);
  const auto listed = static_cast<std::size_t>(cluster.cluster.num_tasks(kServers));
  check_argument(servers.size() == listed, "ParameterServerStrategy got ", servers.size(),
                 " connections, and the cluster has ", listed,
                 " parameter servers: give one for each.");
  const JobConfig job = job_of(options, cluster.world_size);
  const device::DiscoveryOptions discovery{
      .threads_per_cpu = options.threads_per_replica,
      .allow_oversubscription = options.allow_oversubscription};
  std::vector<std::string> names = options.devices;
  if (names.empty() && device::available_gpus(discovery).empty()) names = {"cpu:0"};
  distribute::StrategyParts parts =
      distribute::mirrored_parts("parameter_server", distribute::choose_devices(names, discovery));
  parts.worker = worker_of(cluster, options);
  parts.seed = options.seed;
  parts.placement = options.placement;
  parts.servers.count = static_cast<int>(listed);
  if (job.mode == UpdateMode::kSync)
    parts.servers.replicas_to_aggregate = job.sync.replicas_to_aggregate;
  parts.timeout = options.timeout;
  if (options.chief == ChiefRole::kCoordinates)
    parts.coordination =
        make_phase_coordination(cluster, {.key = options.key,
                                          .coordinator_timeout = options.server_timeout,
                                          .cancel = options.cancel});
  auto client = std::make_shared<ParameterClient>(
      cluster.task, std::move(servers),
      ParameterClientOptions{
          .server_timeout = options.server_timeout,
          .push_dtype = options.push_dtype,
          // A function that has returned has updated the variables for good.
          .wait_for_disk = options.wait_for_disk || options.chief == ChiefRole::kCoordinates,
          .cancel = options.cancel,
          .calls = options.calls});
  if (cluster.is_chief() && options.on_job_in_progress && client->is_in_progress())
    options.on_job_in_progress(client->step());
  parts.synchronizer = remote_synchronizer(
      std::move(client), {.job = job,
                          .is_chief = cluster.is_chief(),
                          .ps_strategy = options.ps_strategy,
                          .variable_partitioner = options.variable_partitioner,
                          .tasks = {.indices = cluster.cluster.task_indices(kServers),
                                    .missing = options.placement.missing},
                          .overlap_from_bytes = options.overlap_from_bytes});
  return parts;
}

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(ParameterServerOptions options)
    : ParameterServerStrategy(cluster::resolve_cluster(), std::move(options)) {}

ParameterServerStrategy::ParameterServerStrategy(const cluster::ClusterConfig& cluster,
                                                 ParameterServerOptions options)
    : ParameterServerStrategy(cluster, connect_all(cluster, options), options) {}

ParameterServerStrategy::ParameterServerStrategy(const cluster::ClusterSpec& cluster,
                                                 const std::string& job, int task,
                                                 ParameterServerOptions options)
    : ParameterServerStrategy(
          cluster::assign_rank({.cluster = cluster, .task = cluster::Task{job, task}},
                               "ParameterServerStrategy"),
          std::move(options)) {}

ParameterServerStrategy::ParameterServerStrategy(
    const cluster::ClusterConfig& cluster, std::vector<std::unique_ptr<ParameterService>> servers,
    ParameterServerOptions options)
    : Strategy(strategy_parts(cluster, std::move(servers), options)),
      cluster_(cluster),
      chief_role_(options.chief) {}

}  // namespace brigade::ps
