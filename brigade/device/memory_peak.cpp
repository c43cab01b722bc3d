#include "brigade/device/memory_peak.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <set>

namespace brigade::device {

std::optional<std::int64_t> gpu_memory_peak(std::span<const Device> devices) {
  std::optional<std::int64_t> bytes;
  std::set<c10::DeviceIndex> counted;
  for (const Device& device : devices) {
    const c10::Device card = device.torch_device;
    if (!card.is_cuda() || !counted.insert(card.index()).second) continue;
    // Index 0 of the statistics is the sum over pools of small and large blocks.
    const auto statistics = c10::getDeviceAllocator(card.type())->getDeviceStats(card.index());
    bytes = bytes.value_or(0) + statistics.allocated_bytes[0].peak;
  }
  return bytes;
}

}  // namespace brigade::device
