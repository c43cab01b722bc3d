#include "brigade/distribute/input/input_budget.h"

#include <algorithm>

#include "brigade/data/runtime/autotune.h"
#include "brigade/machine/cgroup.h"

namespace brigade::distribute {

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
