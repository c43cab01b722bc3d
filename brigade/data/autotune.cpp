#include "brigade/data/autotune.h"

#include <algorithm>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr std::int64_t kMostThreads = 1024;

std::size_t usable_cores() {
  return std::max(1U, std::thread::hardware_concurrency());  // follows the affinity mask
}

}  // namespace

std::size_t threads_for(std::int64_t parallelism, std::string_view transform) {
  if (parallelism == kAutotune) return std::min<std::size_t>(usable_cores(), 16);
  check_argument(parallelism >= 1 && parallelism <= kMostThreads,
                 base::str_cat(transform, ": parallelism is ", parallelism, "; it must be 1 to ",
                               kMostThreads, ", or kAutotune"));
  return static_cast<std::size_t>(parallelism);
}

std::size_t depth_for(std::int64_t count, std::string_view transform) {
  if (count == kAutotune) return std::clamp<std::size_t>(usable_cores(), 2, 8);
  check_argument(count >= 1, base::str_cat(transform, ": ", count,
                                           " elements to prefetch; it must be 1 or more, or "
                                           "kAutotune"));
  return static_cast<std::size_t>(count);
}

}  // namespace brigade::data
