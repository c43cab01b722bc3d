#include "brigade/data/transforms/group_by_window.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::function<std::int64_t(std::int64_t)> window_size_function(std::int64_t size) {
  check_argument(size >= 1, base::str_cat("group_by_window: the window size is ", size,
                                          "; it must be 1 or more"));
  return [size](std::int64_t) { return size; };
}

std::string window_context(const std::string& where, std::uint64_t window, std::int64_t key) {
  return base::str_cat(where, ", window ", window, " (key ", key, "): ");
}

}  // namespace brigade::data::internal
