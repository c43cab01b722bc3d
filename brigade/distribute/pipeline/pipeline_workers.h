#pragma once

#include <memory>

#include "brigade/cluster/membership.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// The groups of workers that one worker of pipelines side by side belongs to. With S workers in
/// each pipeline, worker w has part w % S of the stages of pipeline w / S. The workers of a
/// pipeline run the same replicas, a contiguous block of all; workers with the same part of the
/// stages reduce its gradients.
///
/// Collectives of all workers are made over `replicas` first and then over `pipeline`, also those
/// of `all` (comm::make_grid_communicator). With this one order, workers that wait for one that has
/// failed learn of it from its next collective, whichever that is.
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

/// The groups of this worker. `options.pipelines` divides the number of members, of which there are
/// several.
/// Throws as `make_worker_group`.
PipelineWorkers make_pipeline_workers(std::shared_ptr<cluster::Membership> membership,
                                      WorkerGroupOptions options);

}  // namespace brigade::distribute
