#include "brigade/data/interleave/interleave.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {

std::uint64_t cycle_length_for(const InterleaveOptions& options) {
  constexpr std::int64_t kLongestCycle = 65536;
  if (options.cycle_length == kAutotune) {
    const std::uint64_t cores = usable_cores();
    if (options.parallelism == 1) return cores;
    if (options.parallelism == kAutotune) return (cores + 2) / 3;
    return std::min<std::uint64_t>(threads_for(options.parallelism, "interleave"), cores);
  }
  check_argument(options.cycle_length >= 1 && options.cycle_length <= kLongestCycle,
                 "interleave: cycle_length is ", options.cycle_length, "; it must be 1 to ",
                 kLongestCycle, ", or kAutotune");
  return static_cast<std::uint64_t>(options.cycle_length);
}

InterleaveShape shape_of_interleave(const InterleaveOptions& options) {
  check_argument(options.block_length >= 1, "interleave: block_length is ", options.block_length,
                 "; it must be 1 or more");
  return {.name = "interleave",
          .cycle_length = cycle_length_for(options),
          .block_length = static_cast<std::uint64_t>(options.block_length)};
}

std::string name_of_interleave(const InterleaveShape& shape, const InterleaveOptions& options) {
  const bool is_relaxed = options.parallelism != 1 && options.order == Order::kRelaxed;
  return base::str_cat(shape.name, "(cycle ", shape.cycle_length, ", block ", shape.block_length,
                       is_relaxed ? ", relaxed)" : ")");
}

Order order_of_interleave(const InterleaveOptions& options, const IteratorOptions& job) {
  if (job.order == Order::kInOrder) return Order::kInOrder;
  return options.order.value_or(job.order.value_or(Order::kInOrder));
}

InterleaveThreads threads_of_interleave(const InterleaveOptions& options, std::size_t threads,
                                        const InterleaveShape& shape, const IteratorOptions& job,
                                        const std::string& path) {
  // Those of the cycle, and as many upcoming ones.
  const std::size_t max_queues = 2 * shape.cycle_length;
  StageLimits limits;
  if (options.parallelism == kAutotune) {
    limits = {.max_threads = std::min(max_trial_threads(), max_queues),
              .safe_threads = std::min(max_tuned_threads(), max_queues)};
  }
  const std::size_t first = std::min(threads, max_queues);
  const std::size_t next_queues =
      std::min<std::size_t>(std::max(first, limits.max_threads), shape.cycle_length);
  // Queues in slots may have two chunks ready, upcoming ones one.
  InterleaveThreads result{.order = order_of_interleave(options, job),
                           .settings = {first, max_queues + next_queues},
                           .stages = job.stages};
  if (job.stages) result.stage = job.stages->find_or_add(path, result.settings, limits);
  return result;
}

void rethrow_in_inner(const std::string& where, std::uint64_t epoch, std::uint64_t element) {
  rethrow_with_context(
      base::str_cat(where, ", in the dataset of element ", element, " of epoch ", epoch, ": "));
}

void throw_inner_too_short(const std::string& where, std::uint64_t element) {
  throw_data_too_short(base::str_cat("The saved position is in the dataset that ", where,
                                     " makes from element ", element,
                                     ", which now has fewer elements"));
}

}  // namespace brigade::data::internal
