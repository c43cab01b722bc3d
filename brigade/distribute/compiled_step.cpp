#include "brigade/distribute/compiled_step.h"

#include <algorithm>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

std::string capture_obstacle(const Strategy& strategy) {
  const bool is_one = strategy.num_local_replicas() == 1;
  const c10::Device device = strategy.devices().front().torch_device;
  const auto is_elsewhere = [&](const device::Device& each) { return each.torch_device != device; };
  if (device.is_cpu()) {
    return is_one ? "the replica is on a CPU, where nothing is captured"
                  : "the replicas are on CPUs, where nothing is captured";
  }
  if (std::ranges::any_of(strategy.devices(), is_elsewhere))
    return "the replicas are on several devices, and a graph is of one GPU";
  if (strategy.num_workers() > 1)
    return "the workers exchange gradients between processes, for which the host works in each "
           "step";
  if (strategy.logical_replicas() > 0)
    return "logical replicas compute one after another, as the host decides";
  if (strategy.graph_factory()(device) == nullptr)
    return base::str_cat("this program was built without CUDA graphs, for ", device.str());
  return "";
}

const device::GraphFactory& graph_factory(const Strategy& strategy) {
  return strategy.graph_factory();
}

int local_replicas(const Strategy& strategy) {
  return strategy.num_local_replicas();
}

void update_device_counters(const Strategy& strategy, int replica) {
  for (const Optimizer& optimizer : strategy.created_optimizers())
    optimizer.update_device_counters(replica);
}

}  // namespace brigade::distribute
