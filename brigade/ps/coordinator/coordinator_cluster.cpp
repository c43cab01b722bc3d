#include "brigade/ps/coordinator/coordinator_cluster.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

cluster::Task coordinator_task() {
  return {.job = "chief", .index = 0};
}

void check_has_coordinator(const cluster::ClusterConfig& cluster) {
  check_argument(cluster.cluster.has(coordinator_task()) && cluster.cluster.num_tasks("worker") > 0,
                 "The cluster (", cluster.source,
                 ") has no task chief:0 with an address, or no worker: the chief coordinates, and "
                 "the workers run its functions.");
}

}  // namespace

std::string coordinator_address(const cluster::ClusterConfig& cluster) {
  check_has_coordinator(cluster);
  return cluster.cluster.task_address(coordinator_task());
}

std::vector<cluster::Task> coordinated_workers(const cluster::ClusterConfig& cluster) {
  check_has_coordinator(cluster);
  std::vector<cluster::Task> workers = cluster.cluster.training_tasks();
  std::erase(workers, coordinator_task());
  return workers;
}

void check_is_coordinator(const cluster::ClusterConfig& cluster) {
  check_has_coordinator(cluster);
  check_argument(cluster.task == coordinator_task(), "This process is ", cluster.task,
                 ", and a ClusterCoordinator is for the chief: a worker has a CoordinatedWorker, a "
                 "parameter server a Server.");
}

WorkerContext context_of_worker(const cluster::ClusterConfig& cluster,
                                const concurrency::CancelToken& cancel) {
  const std::vector<cluster::Task> workers = coordinated_workers(cluster);
  const auto found = std::ranges::find(workers, cluster.task);
  check_argument(found != workers.end(), "This process is ", cluster.task,
                 ", and a CoordinatedWorker is for workers: the chief has a ClusterCoordinator, a "
                 "parameter server a Server.");
  return {.cluster = cluster,
          .index = static_cast<int>(found - workers.begin()),
          .num_workers = static_cast<int>(workers.size()),
          .cancel = cancel};
}

}  // namespace brigade::ps
