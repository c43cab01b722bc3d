#include "brigade/distribute/spin_duration.h"

#include "brigade/machine/topology.h"

namespace brigade::distribute {

std::chrono::microseconds spin_duration(const std::vector<device::Device>& devices) {
  constexpr std::chrono::microseconds kOwnCore{200};
  int threads = 0;
  for (const device::Device& device : devices) threads += device.is_cpu() ? device.threads : 1;
  return threads <= device::discover_hardware().topology.usable_cores()
             ? kOwnCore
             : std::chrono::microseconds(0);
}

}  // namespace brigade::distribute
