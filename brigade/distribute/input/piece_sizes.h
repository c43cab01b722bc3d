#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/input/workers.h"

namespace brigade::distribute {

/// How a worker that reads a shard of its own cuts a batch of `size` examples into one piece for
/// each replica of the job, which its own replicas take in turns. A step of all workers then takes
/// about `full` examples, and exactly as many while all have full batches and the workers equal
/// numbers of replicas.
///
/// A full batch is cut by `input::split_sizes`, beginning with the part of the worker's own first
/// replica: 7 over 2 workers with 2 replicas each is {2, 2, 2, 1} and {2, 1, 2, 2}. A smaller batch
/// fills the first pieces and leaves the last ones empty. TensorFlow: batch_sizes_for_worker and
/// RebatchDataset.
std::vector<std::int64_t> rebatch_sizes(std::int64_t size, std::int64_t full,
                                        const ReplicaRange& replicas);

/// The sizes of the pieces that a batch of `size` examples is cut into: they add up to it. `full`
/// is the size of the largest batch so far in this epoch.
using PieceSizes = std::function<std::vector<std::int64_t>(std::int64_t size, std::int64_t full)>;

/// How a worker cuts its batches under a policy: nothing where each makes one step, as by data.
/// `layout` is complete (`with_replicas`).
PieceSizes piece_sizes(AutoShardPolicy policy, const WorkerLayout& layout);

}  // namespace brigade::distribute
