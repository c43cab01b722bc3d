#include "brigade/distribute/strategy_ref.h"

#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

namespace {

std::string name_and_devices(const Strategy& strategy) {
  std::vector<std::string> devices;
  for (const device::Device& device : strategy.devices())
    devices.push_back(device.name.to_string());
  return base::str_cat(strategy.name(), " (", base::join(devices, ", "), ")");
}

}  // namespace

StrategyRef::StrategyRef(const Strategy& strategy)
    : strategy_(&strategy), description_(name_and_devices(strategy)) {}

void StrategyRef::check(const ReplicaContext& context, std::string_view what) const {
  if (&context.strategy() == strategy_) return;
  throw Error(
      ErrorCode::kFailedPrecondition,
      base::str_cat(what, " of the strategy ", description_, " is used in a replica of another, ",
                    name_and_devices(context.strategy()),
                    ": make it with the strategy whose run() uses it."));
}

}  // namespace brigade::distribute
