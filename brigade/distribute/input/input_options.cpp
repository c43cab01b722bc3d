#include "brigade/distribute/input/input_options.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

std::string_view to_string(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kAuto:
      return "auto";
    case AutoShardPolicy::kFile:
      return "file";
    case AutoShardPolicy::kData:
      return "data";
    case AutoShardPolicy::kHint:
      return "hint";
    case AutoShardPolicy::kOff:
      return "off";
  }
  return "unknown";
}

AutoShardPolicy parse_auto_shard_policy(std::string_view text) {
  for (const auto policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                            AutoShardPolicy::kHint, AutoShardPolicy::kOff}) {
    if (text == to_string(policy)) return policy;
  }
  throw Error(ErrorCode::kInvalidArgument, "'", text,
              "' is not an AutoShardPolicy: use auto, file, data, hint or off.");
}

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  check_argument(global_batch_size > 0, "The global batch size is ", global_batch_size,
                 " and must be at least 1.");
  const std::int64_t below = global_batch_size / num_replicas_in_sync * num_replicas_in_sync;
  check_argument(below == global_batch_size, "The global batch size ", global_batch_size,
                 " does not divide evenly over ", num_replicas_in_sync, " replicas; ",
                 below > 0 ? base::str_cat(below, " or ") : "", below + num_replicas_in_sync,
                 " would.");
  return global_batch_size / num_replicas_in_sync;
}

void check_input_options(const InputOptions& options, BatchKind kind) {
  const int ahead = options.per_replica_buffer_size.value_or(0);
  check_argument(ahead >= 0, "InputOptions::per_replica_buffer_size is ", ahead,
                 "; it counts batches: 0 or more.");
  if (kind == BatchKind::kGlobal) {
    check_argument(options.replication == InputReplication::kPerWorker,
                   "InputReplication::kPerReplica needs a function that makes a dataset for each "
                   "replica: use distribute_from_function.");
  } else {
    check_argument(
        options.auto_shard == AutoShardPolicy::kAuto || options.auto_shard == AutoShardPolicy::kOff,
        "AutoShardPolicy '", to_string(options.auto_shard),
        "' does not apply to datasets that come from a function: the function itself shards the "
        "data, by its InputContext.");
  }
  const bool stays = options.fetch == DeviceFetch::kStayOnHost;
  if (options.placement == DatasetPlacement::kOnReplica) {
    check_argument(options.replication == InputReplication::kPerReplica && stays,
                   "DatasetPlacement::kOnReplica makes batches on each replica's device: it needs "
                   "InputReplication::kPerReplica, so that each replica has a dataset, and "
                   "DeviceFetch::kStayOnHost, because nothing is copied.");
  }
  check_argument(!stays || ahead == 0,
                 "InputOptions::per_replica_buffer_size counts batches held on the devices, but "
                 "DeviceFetch::kStayOnHost copies none there: leave it unset, and use "
                 "Dataset::prefetch.");
}

void check_input_options(const InputOptions& options, BatchKind kind, int logical_replicas) {
  check_input_options(options, kind);
  if (logical_replicas == 0) return;
  const std::string reason =
      base::str_cat(", and the strategy has logical_replicas ", logical_replicas,
                    ", whose input must not depend on the number of workers: use ");
  if (kind == BatchKind::kGlobal) {
    check_argument(options.auto_shard == AutoShardPolicy::kAuto ||
                       options.auto_shard == AutoShardPolicy::kData,
                   "AutoShardPolicy '", to_string(options.auto_shard),
                   "' gives each worker data of its own", reason, "auto or data.");
  } else {
    check_argument(options.replication == InputReplication::kPerReplica,
                   "InputReplication::kPerWorker makes one dataset for each worker", reason,
                   "InputReplication::kPerReplica.");
  }
}

int batches_ahead(const InputOptions& options, std::span<const c10::Device> devices) {
  if (options.fetch == DeviceFetch::kStayOnHost) return 0;
  const bool all_on_cpu = std::ranges::all_of(devices, [](c10::Device d) { return d.is_cpu(); });
  return options.per_replica_buffer_size.value_or(all_on_cpu ? 0 : 1);
}

WorkerLayout with_replicas(WorkerLayout layout, int replicas) {
  if (!layout.workers) layout.replicas = {.first = 0, .local = replicas, .total = replicas};
  return layout;
}

}  // namespace brigade::distribute
