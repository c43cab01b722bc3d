#include "brigade/data/pipeline_options.h"

#include <algorithm>

namespace brigade::data {

std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk) {
  // Waking a thread costs some microseconds: a chunk of this length hides it, and one much longer
  // would only make the consumer wait for its first element.
  constexpr std::chrono::microseconds kShort{50};
  constexpr std::chrono::microseconds kLong{200};
  if (elapsed < kShort) return std::min(2 * size, max_chunk);
  if (elapsed > kLong) return std::max<std::size_t>(size / 2, 1);
  return size;
}

std::size_t slots_for(const PipelineOptions& options) {
  constexpr std::size_t kPassing = 8;  // chunks that may pass a slow one, for each that is in use
  const std::size_t in_use = std::max(options.capacity, options.most_slots);
  return options.order == Order::kRelaxed ? kPassing * in_use : in_use;
}

}  // namespace brigade::data
