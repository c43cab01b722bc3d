#include "brigade/data/core/pipeline_options.h"

#include <algorithm>

namespace brigade::data {

std::size_t slots_for(const PipelineOptions& options) {
  constexpr std::size_t kPassing = 8;  // chunks that may pass a slow one, for each that is in use
  const std::size_t in_use = std::max(options.capacity, options.max_slots);
  return options.order == Order::kRelaxed ? kPassing * in_use : in_use;
}

}  // namespace brigade::data
