#include "brigade/data/transforms/rebatch.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_rebatch(const std::vector<std::int64_t>& sizes, const BatchOptions& options) {
  check_argument(!sizes.empty(), "rebatch: the list of sizes is empty; give one size or more");
  for (const std::int64_t size : sizes) {
    check_argument(size >= 1, base::str_cat("rebatch: size is ", size, "; it must be 1 or more"));
  }
  const bool is_dropped = options.remainder == Remainder::kDrop;
  return base::str_cat("rebatch(", base::join(sizes, ", "),
                       is_dropped ? ", without remainder)" : ")");
}

}  // namespace brigade::data::internal
