#pragma once

#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/coordinator/function_registry.h"

/// Who is who in a cluster with a ClusterCoordinator: the task "chief:0" coordinates, and the
/// workers run its functions.
namespace brigade::ps {

/// Of the task "chief:0". Throws kInvalidArgument for a cluster without a chief, without workers,
/// or without addresses.
std::string coordinator_address(const cluster::ClusterConfig& cluster);
/// The tasks that run functions, in the order of their indices. Throws as `coordinator_address`.
std::vector<cluster::Task> coordinated_workers(const cluster::ClusterConfig& cluster);
/// Throws kInvalidArgument unless this process is the chief.
void check_is_coordinator(const cluster::ClusterConfig& cluster);
/// Throws kInvalidArgument unless this process is one of the workers.
WorkerContext context_of_worker(const cluster::ClusterConfig& cluster,
                                const concurrency::CancelToken& cancel);

}  // namespace brigade::ps
