#pragma once

#include <string>

#include "brigade/data/core/node.h"
#include "brigade/data/core/sharding.h"
#include "brigade/distribute/input/input_options.h"

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

}  // namespace brigade::distribute
