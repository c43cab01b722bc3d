#include "brigade/distribute/logical_replicas.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/split.h"

namespace brigade::distribute {

LogicalReplicas divide_logical_replicas(int count, int devices, int first_device,
                                        int local_devices) {
  if (count == 0) return {};
  check_argument(count >= devices, "logical_replicas is ", count, " and there ",
                 devices == 1 ? "is 1 device" : base::str_cat("are ", devices, " devices"),
                 ": each device needs at least one logical replica; raise their number, or use "
                 "fewer devices.");
  LogicalReplicas logical{.count = count};
  const std::vector<std::int64_t> counts = input::split_sizes(count, devices);
  for (int d = first_device; d < first_device + local_devices; ++d)
    logical.of_device.push_back(static_cast<int>(counts[static_cast<std::size_t>(d)]));
  return logical;
}

LogicalReplicas logical_replicas_of(int count, int devices) {
  return divide_logical_replicas(count, devices, 0, devices);
}

}  // namespace brigade::distribute
