#include "brigade/distribute/input/distributed_input.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/machine/cgroup.h"

namespace brigade::distribute {

std::int64_t DistributedInput::cardinality() const {
  std::int64_t elements = 0;
  for (const auto& dataset : datasets) {
    const std::int64_t own = dataset->cardinality();
    if (own < 0) return own;
    elements = std::max(elements, own);
  }
  if (takes_every_nth())
    return data::cardinality_of_shard(elements, layout.num_workers, layout.worker);
  const bool all_iterate_alike = kind == BatchKind::kGlobal && policy == AutoShardPolicy::kData;
  if (elements == 0 || all_iterate_alike) return elements;
  if (layout.is_independent ? has_shard() : layout.num_workers > 1) return data::kUnknown;
  if (is_split()) return elements;
  if (datasets.size() > 1) return elements;
  const auto replicas = static_cast<std::int64_t>(devices.size());
  return (elements + replicas - 1) / replicas;
}

DistributedInput resolved(DistributedInput input) {
  check_input_options(input.options, input.kind, input.layout.logical_replicas);
  check_argument(!input.datasets.empty(), "Input needs a dataset.");
  if (input.kind == BatchKind::kGlobal)
    input.policy =
        auto_shard_for(input.layout, input.options.auto_shard, input.datasets.front()->sharding());
  input.layout = with_replicas(std::move(input.layout), static_cast<int>(input.devices.size()));
  return input;
}

double cores_for_input(double cores, std::size_t cpu_replicas, std::size_t pipelines) {
  const double left = cores - static_cast<double>(cpu_replicas);
  return std::max(left, 1.0) / static_cast<double>(pipelines);
}

data::Tuning input_tuning(std::span<const c10::Device> replicas, std::size_t pipelines,
                          const std::filesystem::path& root) {
  const auto on_cpu = std::ranges::count_if(replicas, [](auto device) { return device.is_cpu(); });
  const auto runnable = static_cast<double>(data::usable_cores());
  const double cores = std::min(runnable, machine::cgroup_cpu_limit(root).value_or(runnable));
  return {.cpu_budget = cores_for_input(cores, static_cast<std::size_t>(on_cpu), pipelines)};
}

}  // namespace brigade::distribute
