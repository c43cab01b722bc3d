#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/core/sharding.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// How a dataset is divided among the workers, with kAuto resolved to another policy.
struct AutoShard {
  AutoShardPolicy policy = AutoShardPolicy::kData;
  /// A note for the log on a choice that users may not expect; empty if there is none.
  std::string notice;
};

/// Resolves `asked` for `workers` workers; every worker gets the same result. Throws
/// kInvalidArgument for kFile with fewer files than workers, naming both numbers, and for kHint
/// without a hint.
AutoShard choose_auto_shard(AutoShardPolicy asked, const data::ShardingInfo& sharding, int workers);

/// The same, called in each worker. Worker 0 logs the notice.
AutoShardPolicy auto_shard_for(const WorkerLayout& layout, AutoShardPolicy asked,
                               const data::ShardingInfo& sharding);

/// The shard of the dataset that a worker iterates over. It is the whole dataset, unless the policy
/// (one that `choose_auto_shard` returned) is kFile or kHint.
data::Shard shard_of(const WorkerLayout& layout, AutoShardPolicy policy);

/// The sizes of the pieces into which a worker that reads its own shard splits a batch of `size`
/// examples: one piece for each replica of the job, which the worker's own replicas take in rounds.
/// A step of all workers then has about `full` examples; exactly `full` as long as all workers have
/// full batches and equal numbers of replicas.
///
/// A full batch is split by `input::split_sizes`, beginning with the piece of the worker's first
/// replica: 7 over 2 workers with 2 replicas each is {2, 2, 2, 1} and {2, 1, 2, 2}. A smaller batch
/// fills the first pieces and leaves the last ones empty. TensorFlow: batch_sizes_for_worker and
/// RebatchDataset.
std::vector<std::int64_t> rebatch_sizes(std::int64_t size, std::int64_t full,
                                        const ReplicaRange& replicas);

/// Returns the sizes of the pieces into which a batch of `size` examples is split; they add up to
/// `size`. `full` is the size of the largest batch so far in this epoch.
using PieceSizes = std::function<std::vector<std::int64_t>(std::int64_t size, std::int64_t full)>;

/// How a worker splits its batches under a policy; null if each batch is one step, as with kData
/// and in workers that are independent.
/// `layout` is complete (`with_replicas`).
PieceSizes piece_sizes(AutoShardPolicy policy, const WorkerLayout& layout);

}  // namespace brigade::distribute
