#include "brigade/data/transforms/prefetch.h"

namespace brigade::data::internal {

PipelineOptions pipeline_of_prefetch(std::int64_t count, std::size_t depth,
                                     const IteratorOptions& job, Order input_order,
                                     const std::string& path) {
  PipelineOptions pipeline{.name = "prefetch",
                           .workers = 1,
                           .capacity = depth,
                           .input_order = input_order,
                           .cancel = job.cancel,
                           .stages = job.stages};
  if (!job.stages) return pipeline;
  StageLimits limits;
  if (count == kAutotune) limits.max_capacity = kMaxTunedDepth;
  pipeline.stage = job.stages->find_or_add(path, {1, depth}, limits);
  pipeline.max_slots = limits.max_capacity;
  return pipeline;
}

}  // namespace brigade::data::internal
