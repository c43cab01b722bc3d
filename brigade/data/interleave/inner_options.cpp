#include "brigade/data/interleave/inner_options.h"

#include "brigade/base/random.h"

namespace brigade::data::internal {

IteratorOptions options_of_input(IteratorOptions options, std::uint64_t input) {
  if (input > 0) options.seed = base::derive_seed(options.seed, "input", input, 0);
  return options;
}

IteratorOptions options_of_inner(IteratorOptions options, std::uint64_t index) {
  const std::uint64_t seed = base::derive_seed(options.seed, "inner", index, 0);
  options.seed = key_in_shard(seed, options.shard);
  options.shard = Shard();
  options.stages = nullptr;  // there may be thousands: their work counts as that of the step
  return options;
}

IteratorOptions options_in_order(IteratorOptions options) {
  options.order = Order::kInOrder;
  return options;
}

}  // namespace brigade::data::internal
