#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/task.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/parameter_service.h"

/// The parameter servers of a cluster, and their replicas: the task "ps_replica:N", if there is
/// one, is the second process of the server "ps:N".
namespace brigade::ps {

/// Throws kInvalidArgument for a replica whose server the cluster does not have.
void check_replicas(const cluster::ClusterSpec& cluster);

/// The other process of the server that this task is one of; unset without replica.
std::optional<cluster::Task> other_process(const cluster::ClusterSpec& cluster,
                                           const cluster::Task& task);

/// A connection for `task` to each server, in the order of their indices: to the process that acts,
/// where there are two. Throws as `connect` and `check_replicas`, and kNotFound for a cluster
/// without servers.
std::vector<std::unique_ptr<ParameterService>> connect_to_servers(
    const cluster::ClusterSpec& cluster, const cluster::Task& task,
    const std::optional<cluster::ClusterKey>& key, const ConnectionOptions& options = {});

}  // namespace brigade::ps
