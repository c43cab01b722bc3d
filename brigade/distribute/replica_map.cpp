#include "brigade/distribute/replica_map.h"

#include <ATen/core/grad_mode.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"
#include "brigade/device/random_scope.h"

namespace brigade::distribute {

void in_replica_map_context(const ReplicaBatchId& id, c10::Device device,
                            const std::function<void(ReplicaMapContext&)>& body) {
  const std::uint64_t root = base::mix_seed(id.seed, id.epoch);
  const auto replica = static_cast<std::uint64_t>(id.replica);
  base::CounterRng rng(base::derive_seed(root, "map_on_replica", replica, id.step));
  device::ReplicaGenerator generator(base::derive_seed(root, "map_on_replica/torch", 0, 0),
                                     replica);
  generator.begin_step(id.step);
  const device::RandomScope random(generator);
  const at::NoGradGuard no_grad;
  ReplicaMapContext context{
      .replica = id.replica, .epoch = id.epoch, .step = id.step, .device = device, .rng = rng};
  try {
    body(context);
  } catch (...) {
    data::internal::rethrow_with_context(base::str_cat("map_on_replica, batch of replica ",
                                                       id.replica, " at step ", id.step,
                                                       " of epoch ", id.epoch, ": "));
  }
}

void prepare_replica_map_contexts() {
  const device::ReplicaGenerator first(0, 0);
}

void check_example_count(std::int64_t before, std::int64_t after) {
  check_argument(before == after,
                 base::str_cat("the function returned ", after, " examples for ", before,
                               "; it must keep their number: use Dataset::map, filter or unbatch "
                               "before the dataset is distributed."));
}

}  // namespace brigade::distribute
