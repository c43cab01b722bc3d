#include "brigade/distribute/input_budget.h"

#include <algorithm>

#include "brigade/data/autotune.h"

namespace brigade::distribute {

double cores_for_input(std::size_t cores, std::size_t cpu_replicas, std::size_t pipelines) {
  const std::size_t left = cores > cpu_replicas ? cores - cpu_replicas : 0;
  return static_cast<double>(std::max<std::size_t>(left, 1)) / static_cast<double>(pipelines);
}

data::Tuning tuning_beside(std::span<const c10::Device> replicas, std::size_t pipelines) {
  const auto on_cpu = std::ranges::count_if(replicas, [](auto device) { return device.is_cpu(); });
  return {.cpu_budget =
              cores_for_input(data::usable_cores(), static_cast<std::size_t>(on_cpu), pipelines)};
}

}  // namespace brigade::distribute
