#include "brigade/data/transforms/take.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_take(std::int64_t count) {
  check_argument(count >= 0, "take: count is ", count,
                 "; it must be 0 or more, or -1 for all elements");
  return base::str_cat("take(", count, ")");
}

std::string name_of_skip(std::int64_t count) {
  check_argument(count >= 0, "skip: count is ", count,
                 "; it must be 0 or more, or -1 to skip all elements");
  return base::str_cat("skip(", count, ")");
}

}  // namespace brigade::data::internal
