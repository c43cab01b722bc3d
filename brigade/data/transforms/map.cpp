#include "brigade/data/transforms/map.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"

namespace brigade::data::internal {

std::string name_of_map(const MapOptions& options) {
  if (!options.seed) return options.name;
  return base::str_cat(options.name, "(seed ", *options.seed, ")");
}

Order order_of_map(const MapOptions& options, const IteratorOptions& job) {
  if (job.order == Order::kInOrder) return Order::kInOrder;  // overrides the option
  return options.order.value_or(job.order.value_or(Order::kInOrder));
}

PipelineOptions pipeline_of_map(const MapOptions& options, std::size_t threads,
                                const IteratorOptions& job, Order input_order,
                                const std::string& path) {
  StageLimits limits;
  if (options.parallelism == kAutotune) {
    limits = {.max_threads = max_trial_threads(),
              .max_capacity = 2 * max_trial_threads(),
              .safe_threads = max_tuned_threads()};
  }
  PipelineOptions pipeline =
      pipeline_of_step("map", {threads, 2 * threads}, limits, job, input_order, path);
  pipeline.max_chunk = 64;  // if the function is fast
  pipeline.order = order_of_map(options, job);
  return pipeline;
}

void rethrow_at_element(const std::string& where, std::uint64_t epoch, std::uint64_t index) {
  rethrow_with_context(base::str_cat(where, ", element ", index, " of epoch ", epoch, ": "));
}

}  // namespace brigade::data::internal
