#include "brigade/data/batch.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_batch(std::int64_t size) {
  check_argument(size >= 1, base::str_cat("batch: size is ", size, "; it must be 1 or more"));
  return base::str_cat("batch(", size, ")");
}

}  // namespace brigade::data::internal
