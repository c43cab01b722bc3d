#include "brigade/data/transforms/map.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"

namespace brigade::data::internal {

std::string name_of_map(const MapOptions& options) {
  if (!options.seed) return options.name;
  return base::str_cat(options.name, "(seed ", *options.seed, ")");
}

std::uint64_t key_of_map(const MapOptions& options, const IteratorOptions& job,
                         std::uint64_t depth) {
  const std::uint64_t key = options.seed ? base::derive_seed(*options.seed, "map", 0, job.epoch)
                                         : base::derive_seed(job.seed, "map", depth, job.epoch);
  return key_in_shard(key, job.shard);
}

Order order_of_map(const MapOptions& options, const IteratorOptions& job) {
  if (job.order == Order::kInOrder) return Order::kInOrder;  // overrides the option
  return options.order.value_or(job.order.value_or(Order::kInOrder));
}

PipelineOptions pipeline_of_map(const MapOptions& options, std::size_t threads,
                                const IteratorOptions& job, Order input_order,
                                const std::string& path) {
  constexpr std::size_t kMaxChunk = 64;  // elements a thread takes at once, if the function is fast
  PipelineOptions pipeline{.name = "map",
                           .workers = threads,
                           .capacity = 2 * threads,
                           .max_chunk = kMaxChunk,
                           .order = order_of_map(options, job),
                           .input_order = input_order,
                           .cancel = job.cancel,
                           .stages = job.stages};
  if (!job.stages) return pipeline;
  StageLimits limits;
  if (options.parallelism == kAutotune) {
    limits = {.max_threads = max_trial_threads(),
              .max_capacity = 2 * max_trial_threads(),
              .safe_threads = max_tuned_threads()};
  }
  pipeline.stage = job.stages->find_or_add(path, {threads, pipeline.capacity}, limits);
  pipeline.max_slots = limits.max_capacity;
  return pipeline;
}

void rethrow_at_element(const std::string& where, std::uint64_t epoch, std::uint64_t index) {
  rethrow_with_context(base::str_cat(where, ", element ", index, " of epoch ", epoch, ": "));
}

}  // namespace brigade::data::internal
