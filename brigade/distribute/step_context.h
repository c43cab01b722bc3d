#pragma once

#include <cstdint>
#include <optional>

#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

/// What is equal for all replicas of one `run`.
struct StepContext {
  std::uint64_t step = 0;  ///< the number of earlier runs of this strategy
  std::optional<ExampleCounts>
      examples;  ///< of the distributed batch that was passed; unset without one
};

}  // namespace brigade::distribute
