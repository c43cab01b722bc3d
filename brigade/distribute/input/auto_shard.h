#pragma once

#include <string>

#include "brigade/data/core/node.h"
#include "brigade/data/core/sharding.h"
#include "brigade/distribute/input/input_options.h"

namespace brigade::distribute {

/// How a dataset is shared out, with kAuto decided.
struct AutoShard {
  AutoShardPolicy policy = AutoShardPolicy::kData;
  /// What whoever asked may not expect; empty if nothing.
  std::string notice;
};

/// The way for `workers` workers, all of which come to the same. Throws kInvalidArgument for kFile
/// with fewer files than workers, naming both numbers, and for kHint without a hint.
AutoShard choose_auto_shard(AutoShardPolicy asked, const data::ShardingInfo& sharding, int workers);

/// The same for one of the workers; the first of them logs the notice.
AutoShardPolicy auto_shard_at(const WorkerLayout& layout, AutoShardPolicy asked,
                              const data::ShardingInfo& sharding);

/// The part of the dataset that a worker walks over: the whole, unless the policy (one that
/// `choose_auto_shard` gave) is kFile or kHint.
data::Shard shard_of(const WorkerLayout& layout, AutoShardPolicy policy);

}  // namespace brigade::distribute
