#include "brigade/distribute/pipeline_workers.h"

#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/cluster/sub_membership.h"
#include "brigade/comm/small_collectives.h"

namespace brigade::distribute {

namespace {

/// Some of all workers, who count their steps as all do.
std::shared_ptr<const WorkerGroup> make_subgroup(const WorkerGroup& all,
                                                 const std::vector<int>& ranks,
                                                 std::string_view name) {
  auto membership = std::make_shared<cluster::SubMembership>(
      all.membership, ranks, base::str_cat("pipeline/", all.membership->generation(), "/", name));
  comm::ProcessLayout layout{.process = membership->self().rank, .replicas = {}};
  for (const int rank : ranks)
    layout.replicas.push_back(all.layout.replicas[static_cast<std::size_t>(rank)]);
  std::shared_ptr<comm::ProcessCommunicator> communicator =
      comm::make_process_communicator(membership, all.communication);
  all.communicator->progress().lead({communicator, &communicator->progress()});
  return std::make_shared<const WorkerGroup>(WorkerGroup{.membership = std::move(membership),
                                                         .communicator = std::move(communicator),
                                                         .layout = std::move(layout),
                                                         .bytes_per_pack = all.bytes_per_pack,
                                                         .replicas_of_device = {},
                                                         .arithmetic = all.arithmetic,
                                                         .communication = all.communication});
}

}  // namespace

void PipelineWorkers::barrier() const {
  if (replicas) replicas->communicator->barrier();
  if (pipeline) pipeline->communicator->barrier();
}

std::string PipelineWorkers::of_first(const std::string& text) const {
  std::string first = text;
  if (replicas) first = comm::all_gather_texts(*replicas->communicator, first).front();
  if (pipeline) first = comm::all_gather_texts(*pipeline->communicator, first).front();
  return first;
}

PipelineWorkers make_pipeline_workers(std::shared_ptr<const WorkerGroup> all, int pipelines) {
  const int parts = all->count() / pipelines;
  if (pipelines == 1) return {.all = all, .pipeline = all, .replicas = nullptr};
  if (parts == 1) return {.all = all, .pipeline = nullptr, .replicas = all};
  const int part = all->index() % parts;
  const int own = all->index() / parts;
  std::vector<int> of_pipeline;
  std::vector<int> of_part;
  for (int i = 0; i < parts; ++i) of_pipeline.push_back(own * parts + i);
  for (int i = 0; i < pipelines; ++i) of_part.push_back(i * parts + part);
  PipelineWorkers workers{.all = all, .pipeline = nullptr, .replicas = nullptr};
  workers.pipeline = make_subgroup(*all, of_pipeline, base::str_cat("pipeline ", own));
  workers.replicas = make_subgroup(*all, of_part, base::str_cat("stages ", part));
  return workers;
}

}  // namespace brigade::distribute
