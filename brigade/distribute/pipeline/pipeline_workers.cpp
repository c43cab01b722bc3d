#include "brigade/distribute/pipeline/pipeline_workers.h"

#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/cluster/sub_membership.h"
#include "brigade/comm/grid_communicator.h"

namespace brigade::distribute {

namespace {

using cluster::Membership;

/// Some of all workers: `count` from `first` on, in steps.
struct Side {
  std::vector<int> ranks;
  std::shared_ptr<Membership> membership;
  std::shared_ptr<comm::ProcessCommunicator> communicator;
};

Side make_side(const std::shared_ptr<Membership>& all, int first, int step, int count,
               std::string_view what, const comm::CommunicationOptions& options) {
  Side side;
  for (int i = 0; i < count; ++i) side.ranks.push_back(first + i * step);
  side.membership = std::make_shared<cluster::SubMembership>(
      all, side.ranks, base::str_cat("pipelines/", all->generation(), "/", what, " ", first));
  side.communicator = comm::make_process_communicator(side.membership, options);
  return side;
}

std::shared_ptr<const WorkerGroup> group_of(const Side& side, const WorkerGroup& all) {
  WorkerGroup group = all;
  group.membership = side.membership;
  group.communicator = side.communicator;
  group.layout = {.process = side.membership->self().rank, .replicas = {}};
  for (const int rank : side.ranks)
    group.layout.replicas.push_back(all.layout.replicas[static_cast<std::size_t>(rank)]);
  return std::make_shared<const WorkerGroup>(std::move(group));
}

}  // namespace

PipelineWorkers make_pipeline_workers(std::shared_ptr<Membership> membership,
                                      WorkerGroupOptions options) {
  const int pipelines = options.pipelines;
  const int parts = static_cast<int>(membership->members().size()) / pipelines;
  if (pipelines == 1 || parts == 1) {
    auto all = make_worker_group(std::move(membership), options);
    if (pipelines == 1) return {.all = all, .pipeline = all, .replicas = nullptr};
    return {.all = all, .pipeline = nullptr, .replicas = all};
  }
  const int rank = membership->self().rank;
  Side pipeline;
  Side replicas;
  options.communicator = [&](const std::shared_ptr<Membership>& all,
                             const comm::CommunicationOptions& communication) {
    pipeline = make_side(all, rank / parts * parts, 1, parts, "pipeline", communication);
    replicas = make_side(all, rank % parts, parts, pipelines, "stages", communication);
    return std::shared_ptr<comm::ProcessCommunicator>(comm::make_grid_communicator(
        {.column = replicas.communicator, .row = pipeline.communicator}));
  };
  auto all = make_worker_group(std::move(membership), options);
  PipelineWorkers workers{.all = all, .pipeline = nullptr, .replicas = nullptr};
  workers.pipeline = group_of(pipeline, *all);
  workers.replicas = group_of(replicas, *all);
  return workers;
}

}  // namespace brigade::distribute
