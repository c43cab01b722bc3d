#include "brigade/distribute/input_options.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

std::string_view to_string(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kAuto:
      return "auto";
    case AutoShardPolicy::kFile:
      return "file";
    case AutoShardPolicy::kData:
      return "data";
    case AutoShardPolicy::kHint:
      return "hint";
    case AutoShardPolicy::kOff:
      return "off";
  }
  return "unknown";
}

AutoShardPolicy parse_auto_shard_policy(std::string_view text) {
  for (const auto policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                            AutoShardPolicy::kHint, AutoShardPolicy::kOff}) {
    if (text == to_string(policy)) return policy;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      base::str_cat("'", text, "' is no way to share out input: auto, file, data, hint or off."));
}

InputPlace with_replicas(InputPlace place, int replicas) {
  if (!place.workers) place.replicas = {.first = 0, .local = replicas, .total = replicas};
  return place;
}

}  // namespace brigade::distribute
