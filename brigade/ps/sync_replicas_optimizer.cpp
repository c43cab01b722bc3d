#include "brigade/ps/sync_replicas_optimizer.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

SyncReplicasOptimizer::SyncReplicasOptimizer(optim::UpdateRulePtr rule, SyncReplicasOptions options)
    : rule_(std::move(rule)), options_(options) {
  check_argument(rule_ != nullptr, "SyncReplicasOptimizer: the update rule is null.");
  const int gradients = replicas_to_aggregate();
  const int workers = total_num_replicas();
  check_argument(gradients >= 1 && workers >= 1, "SyncReplicasOptimizer: replicas_to_aggregate is ",
                 gradients, " and total_num_replicas ", workers, "; both must be at least 1.");
  check_argument(gradients <= workers, "SyncReplicasOptimizer: replicas_to_aggregate is ",
                 gradients, ", more than the total_num_replicas of ", workers,
                 ", so each worker would compute several batches for a step: let it accumulate "
                 "them (OptimizerOptions::accumulate), with replicas_to_aggregate = ",
                 workers, ".");
}

int SyncReplicasOptimizer::total_num_replicas() const {
  return options_.total_num_replicas.value_or(options_.replicas_to_aggregate);
}

ParameterServerOptions SyncReplicasOptimizer::strategy_options(
    const cluster::ClusterSpec& cluster, ParameterServerOptions options) const {
  const std::size_t workers = cluster.training_tasks().size();
  check_argument(workers == static_cast<std::size_t>(total_num_replicas()),
                 "SyncReplicasOptimizer: total_num_replicas is ", total_num_replicas(),
                 ", and the cluster has ", workers,
                 " tasks that train (chief and workers): give the same number.");
  options.mode = UpdateMode::kSync;
  options.backup_workers = total_num_replicas() - replicas_to_aggregate();
  return options;
}

void SyncReplicasOptimizer::check(const distribute::Strategy& strategy) const {
  const distribute::ServerLayout& servers = strategy.servers();
  check_argument(
      servers.count > 0,
      "SyncReplicasOptimizer is for workers with parameter servers, and the strategy ",
      strategy.name(),
      " has none: its replicas are synchronous in any case, so give it the update rule itself.");
  check_argument(
      servers.replicas_to_aggregate == replicas_to_aggregate() &&
          strategy.num_workers() == total_num_replicas(),
      "SyncReplicasOptimizer: replicas_to_aggregate is ", replicas_to_aggregate(), " of ",
      total_num_replicas(), " workers, and the strategy ",
      servers.replicas_to_aggregate == 0
          ? std::string("applies each worker's gradients when they arrive")
          : base::str_cat("adds the gradients of ", servers.replicas_to_aggregate, " of ",
                          strategy.num_workers()),
      ": make it with the options that SyncReplicasOptimizer::strategy_options returns.");
}

}  // namespace brigade::ps
