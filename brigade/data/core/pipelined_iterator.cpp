#include "brigade/data/core/pipelined_iterator.h"

#include <algorithm>

namespace brigade::data {

std::size_t slots_for(const PipelineOptions& options) {
  constexpr std::size_t kOvertaking = 8;  // slots in relaxed order, for each that is in use
  const std::size_t in_use = std::max(options.capacity, options.max_slots);
  return options.order == Order::kRelaxed ? kOvertaking * in_use : in_use;
}

PipelineOptions pipeline_of_step(std::string name, const StageSettings& first,
                                 const StageLimits& limits, const IteratorOptions& job,
                                 Order input_order, const std::string& path) {
  PipelineOptions pipeline{.name = std::move(name),
                           .workers = first.threads,
                           .capacity = first.capacity,
                           .input_order = input_order,
                           .cancel = job.cancel,
                           .stages = job.stages};
  if (!job.stages) return pipeline;
  pipeline.stage = job.stages->find_or_add(path, first, limits);
  pipeline.max_slots = limits.max_capacity;
  return pipeline;
}

}  // namespace brigade::data
