#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/device/testing/fake_device.h"
#include "brigade/device/testing/recorded_graph.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

/// For tests: logical GPUs of the fake device.
inline std::vector<device::Device> logical_cards(int count) {
  std::vector<device::Device> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back({.name = {.type = machine::DeviceType::kGpu, .index = i},
                       .torch_device = device::testing::FakeDevice::device(),
                       .logical_index = i});
  }
  return devices;
}

/// For tests: a mirrored strategy on logical GPUs of the fake device, which captures steps with
/// recorded graphs. Models must be made on the device, as libtorch moves no parameters to it.
class CardStrategy final : public Strategy {
 public:
  explicit CardStrategy(int replicas = 1, std::uint64_t seed = 0)
      : Strategy(with_graphs(mirrored_parts("card", logical_cards(replicas)), seed)) {}
  explicit CardStrategy(StrategyParts parts) : Strategy(with_graphs(std::move(parts), 0)) {}

 private:
  static StrategyParts with_graphs(StrategyParts parts, std::uint64_t seed) {
    device::testing::FakeDevice::get();
    parts.graph = device::testing::make_recorded_graph;
    parts.seed = seed;
    parts.timeout = std::chrono::seconds(60);
    return parts;
  }
};

}  // namespace brigade::distribute
