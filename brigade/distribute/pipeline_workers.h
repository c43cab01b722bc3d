#pragma once

#include <memory>

#include "brigade/cluster/membership.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// The workers of pipelines side by side, as one of them sees them: stages times replicas. Worker w
/// of S workers a pipeline has part w % S of the stages of pipeline w / S. The workers of a
/// pipeline run the same replicas, a contiguous block of all; those that have the same part of the
/// stages reduce its gradients.
///
/// Whatever concerns all is said with `replicas` first, and then with `pipeline`, also by `all`
/// (comm::make_grid_communicator). So one that has failed in a step, and goes on, is met by those
/// who wait for it, whatever it does next.
///
/// Thread-safety: as WorkerGroup.
struct PipelineWorkers {
  std::shared_ptr<const WorkerGroup> all;
  /// Those of this worker's pipeline; null if this worker has all stages.
  std::shared_ptr<const WorkerGroup> pipeline;
  /// One of each pipeline, with this worker's stages; null if there is one pipeline.
  std::shared_ptr<const WorkerGroup> replicas;

  /// This worker's part of the stages.
  int part() const { return pipeline ? pipeline->index() : 0; }
};

/// The groups of this worker, of a membership of several; `options.pipelines` divides their number.
/// Throws as `make_worker_group`.
PipelineWorkers make_pipeline_workers(std::shared_ptr<cluster::Membership> membership,
                                      WorkerGroupOptions options);

}  // namespace brigade::distribute
