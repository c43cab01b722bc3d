#pragma once

#include <cstdint>
#include <optional>

#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

/// What the replicas of one `run` have in common.
struct StepContext {
  std::uint64_t step = 0;  ///< how many runs this strategy made before
  std::optional<ExampleCounts>
      examples;  ///< from the distributed batch that was passed, if one was
};

}  // namespace brigade::distribute
