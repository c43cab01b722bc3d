#include "brigade/distribute/compiled_step.h"

#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

std::string capture_obstacle(const Strategy& strategy) {
  if (strategy.num_replicas_in_sync() > 1)
    return "the step has several replicas, which wait for one another on the host";
  const c10::Device device = strategy.devices().front().torch_device;
  if (device.is_cpu()) return "the replica is on a CPU, where nothing is captured";
  if (strategy.graph_factory()(device) == nullptr)
    return base::str_cat("this program was built without CUDA graphs, for ", device.str());
  return "";
}

const device::GraphFactory& graph_factory(const Strategy& strategy) {
  return strategy.graph_factory();
}

void update_device_counters(const Strategy& strategy, int replica) {
  for (const Optimizer& optimizer : strategy.created_optimizers())
    optimizer.update_device_counters(replica);
}

}  // namespace brigade::distribute
