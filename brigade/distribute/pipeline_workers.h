#pragma once

#include <memory>
#include <string>

#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// The workers of pipelines side by side, as one of them sees them: stages times replicas. Worker w
/// of S workers a pipeline has part w % S of the stages of pipeline w / S. The workers of a
/// pipeline run the same replicas, a contiguous block of all; those that have the same part of the
/// stages reduce its gradients.
///
/// In a step every worker makes its collectives with `replicas` before those with `pipeline`, in
/// the barrier that begins the step as well. So one that has failed, and goes on to the next step,
/// is awaited in the group with which it comes together first, and all hear of the failure.
///
/// Thread-safety: as WorkerGroup.
struct PipelineWorkers {
  std::shared_ptr<const WorkerGroup> all;
  /// Those of this worker's pipeline; null if this worker has all stages.
  std::shared_ptr<const WorkerGroup> pipeline;
  /// One of each pipeline, with this worker's stages; null if there is one pipeline.
  std::shared_ptr<const WorkerGroup> replicas;

  /// This worker's part of the stages, of so many.
  int part() const { return pipeline ? pipeline->index() : 0; }
  int parts() const { return pipeline ? pipeline->count() : 1; }
  /// Waits for all workers.
  void barrier() const;
  /// The text that the first of all workers gives, in all. A collective.
  std::string of_first(const std::string& text) const;
};

/// The groups of this worker, if `all` are those of so many pipelines, whose number divides theirs.
/// A collective of all.
PipelineWorkers make_pipeline_workers(std::shared_ptr<const WorkerGroup> all, int pipelines);

}  // namespace brigade::distribute
