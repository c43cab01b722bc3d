#pragma once

#include <memory>
#include <utility>

#include "brigade/data/runtime/stages.h"

namespace brigade::data::testing {

/// Counts and measures every step of a pipeline. For tests only.
inline std::shared_ptr<Stages> all_stages(Tuning tuning = {}) {
  return std::make_shared<Stages>(
      StagesOptions{.count = StagesOptions::Count::kAll, .tuning = std::move(tuning)});
}

}  // namespace brigade::data::testing
