#include "brigade/ps/server_tasks.h"

#include <functional>

#include "brigade/base/error.h"
#include "brigade/ps/client/replicated_service.h"

namespace brigade::ps {
namespace {

constexpr const char* kServer = "ps";
constexpr const char* kReplica = "ps_replica";

}  // namespace

void check_replicas(const cluster::ClusterSpec& cluster) {
  if (cluster.num_tasks(kReplica) == 0) return;
  for (const int index : cluster.task_indices(kReplica))
    check_argument(cluster.has({.job = kServer, .index = index}), "The cluster has the replica ",
                   cluster::Task{.job = kReplica, .index = index}, ", and no ",
                   cluster::Task{.job = kServer, .index = index},
                   ": a replica has the index of its server.");
}

std::optional<cluster::Task> other_process(const cluster::ClusterSpec& cluster,
                                           const cluster::Task& task) {
  const cluster::Task other = {.job = task.job == kServer ? kReplica : kServer,
                               .index = task.index};
  return cluster.has(other) ? std::optional(other) : std::nullopt;
}

std::vector<std::unique_ptr<ParameterService>> connect_to_servers(
    const cluster::ClusterSpec& cluster, const cluster::Task& task,
    const std::optional<cluster::ClusterKey>& key, const ConnectionOptions& options) {
  check_replicas(cluster);
  std::vector<std::unique_ptr<ParameterService>> servers;
  for (const int index : cluster.task_indices(kServer)) {
    const cluster::Task server = {.job = kServer, .index = index};
    const auto replica = other_process(cluster, server);
    if (!replica) {
      servers.push_back(connect(cluster.task_address(server), key, options));
      continue;
    }
    std::vector<std::function<std::unique_ptr<PairedService>()>> processes;
    for (const cluster::Task& each : {server, *replica})
      processes.push_back([address = cluster.task_address(each), key, options] {
        return connect_to_pair(address, key, options);
      });
    servers.push_back(make_replicated_service(task, std::move(processes)));
  }
  return servers;
}

}  // namespace brigade::ps
