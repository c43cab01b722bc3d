#include "brigade/distribute/input/input_context.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  check_argument(
      global_batch_size > 0,
      base::str_cat("The global batch size is ", global_batch_size, " and must be at least 1."));
  const std::int64_t below = global_batch_size / num_replicas_in_sync * num_replicas_in_sync;
  check_argument(below == global_batch_size,
                 base::str_cat("The global batch size ", global_batch_size,
                               " does not divide evenly over ", num_replicas_in_sync, " replicas; ",
                               below > 0 ? base::str_cat(below, " or ") : "",
                               below + num_replicas_in_sync, " would."));
  return global_batch_size / num_replicas_in_sync;
}

}  // namespace brigade::distribute
