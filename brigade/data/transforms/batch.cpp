#include "brigade/data/transforms/batch.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_batch(std::int64_t size, const BatchOptions& options) {
  check_argument(size >= 1, base::str_cat("batch: size is ", size, "; it must be 1 or more"));
  const bool is_dropped = options.remainder == Remainder::kDrop;
  return base::str_cat("batch(", size, is_dropped ? ", without remainder)" : ")");
}

std::string fixed_name_of_batch(const BatchOptions& options) {
  return options.remainder == Remainder::kDrop ? "batch(without remainder)" : "batch";
}

}  // namespace brigade::data::internal
