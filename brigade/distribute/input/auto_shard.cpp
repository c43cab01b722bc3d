#include "brigade/distribute/input/auto_shard.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/input/split.h"

namespace brigade::distribute {

namespace {

std::string with_unit(std::int64_t count, std::string_view what) {
  return base::str_cat(count, " ", what, count == 1 ? "" : "s");
}

AutoShard choose_automatically(const data::ShardingInfo& sharding, int workers) {
  if (sharding.files == 0) return {AutoShardPolicy::kData, ""};
  if (sharding.files < workers) {
    return {AutoShardPolicy::kData,
            base::str_cat("The dataset has ", with_unit(sharding.files, "file"), " and the job ",
                          workers,
                          " workers: it is sharded by data, so every worker reads all of it.")};
  }
  if (sharding.counting_step.empty()) return {AutoShardPolicy::kFile, ""};
  return {AutoShardPolicy::kData,
          base::str_cat("The dataset is sharded by data, so every worker reads all of it: sharded "
                        "by file, each worker would apply ",
                        sharding.counting_step,
                        " to its own files, and examples would be lost or repeated. "
                        "AutoShardPolicy::kFile does that.")};
}

void check_files(std::int64_t files, int workers) {
  check_argument(files >= workers,
                 "AutoShardPolicy::kFile gives each worker its own files, and the dataset has ",
                 files == 0 ? "none (data::from_files)" : with_unit(files, "file"), " for ",
                 workers, " workers: use more files, fewer workers, or kAuto or kData.");
}

}  // namespace

AutoShard choose_auto_shard(AutoShardPolicy asked, const data::ShardingInfo& sharding,
                            int workers) {
  if (workers == 1) return {AutoShardPolicy::kData, ""};
  if (asked == AutoShardPolicy::kAuto) return choose_automatically(sharding, workers);
  if (asked == AutoShardPolicy::kFile) {
    check_files(sharding.files, workers);
    if (sharding.counting_step.empty()) return {asked, ""};
    return {asked, base::str_cat("The dataset is sharded by file: each worker applies ",
                                 sharding.counting_step, " to its own files.")};
  }
  if (asked == AutoShardPolicy::kHint) {
    check_argument(
        sharding.has_hint,
        "AutoShardPolicy::kHint shards a dataset at its shard_hint(), and this dataset has none: "
        "add shard_hint() to the transforms, or use another policy.");
  }
  return {asked, ""};
}

AutoShardPolicy auto_shard_for(const WorkerLayout& layout, AutoShardPolicy asked,
                               const data::ShardingInfo& sharding) {
  if (layout.logical_replicas > 0) return AutoShardPolicy::kData;
  const AutoShard chosen = choose_auto_shard(asked, sharding, layout.num_workers);
  if (layout.worker == 0 && !chosen.notice.empty()) base::log_info(chosen.notice);
  return chosen.policy;
}

data::Shard shard_of(const WorkerLayout& layout, AutoShardPolicy policy) {
  if (policy != AutoShardPolicy::kFile && policy != AutoShardPolicy::kHint) return {};
  return {.by = policy == AutoShardPolicy::kFile ? data::ShardBy::kFiles : data::ShardBy::kHint,
          .count = layout.num_workers,
          .index = layout.worker};
}

std::vector<std::int64_t> rebatch_sizes(std::int64_t size, std::int64_t full,
                                        const ReplicaRange& replicas) {
  std::vector<std::int64_t> sizes = input::split_sizes(full, replicas.total);
  std::rotate(sizes.begin(), sizes.begin() + replicas.first, sizes.end());
  std::int64_t left = size;
  for (std::int64_t& piece : sizes) {
    piece = std::min(piece, left);
    left -= piece;
  }
  return sizes;
}

PieceSizes piece_sizes(AutoShardPolicy policy, const WorkerLayout& layout) {
  if (layout.num_workers == 1 || layout.is_independent) return nullptr;
  if (policy == AutoShardPolicy::kFile || policy == AutoShardPolicy::kHint) {
    return [replicas = layout.replicas](std::int64_t size, std::int64_t full) {
      return rebatch_sizes(size, full, replicas);
    };
  }
  if (policy != AutoShardPolicy::kOff) return nullptr;
  return [workers = layout.num_workers](std::int64_t size, std::int64_t) {
    std::vector<std::int64_t> sizes = input::split_sizes(size, workers);
    std::erase(sizes, 0);  // a step without examples
    return sizes;
  };
}

}  // namespace brigade::distribute
