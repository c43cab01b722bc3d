#include "brigade/data/core/pipeline_options.h"

#include <algorithm>

namespace brigade::data {

std::size_t slots_for(const PipelineOptions& options) {
  constexpr std::size_t kOvertaking = 8;  // slots in relaxed order, for each that is in use
  const std::size_t in_use = std::max(options.capacity, options.max_slots);
  return options.order == Order::kRelaxed ? kOvertaking * in_use : in_use;
}

}  // namespace brigade::data
