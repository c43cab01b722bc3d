#include "brigade/data/runtime/autotune.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxDepth = 65536;  // each slot takes memory from the start

}  // namespace

std::size_t usable_cores() {
  return std::max(1U, std::thread::hardware_concurrency());  // follows the affinity mask
}

std::size_t max_tuned_threads() {
  return std::max<std::size_t>(16, 2 * usable_cores());
}

std::size_t max_trial_threads() {
  return 8 * max_tuned_threads();
}

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kModest = std::uint64_t{1} << 30;
  if (pages <= 0 || page <= 0) return kModest;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

std::size_t threads_for(std::int64_t parallelism, std::string_view transform) {
  if (parallelism == kAutotune) return std::min<std::size_t>(usable_cores(), 16);
  check_argument(parallelism >= 1 && parallelism <= kMaxThreads,
                 base::str_cat(transform, ": parallelism is ", parallelism, "; it must be 1 to ",
                               kMaxThreads, ", or kAutotune"));
  return static_cast<std::size_t>(parallelism);
}

std::size_t depth_for(std::int64_t count, std::string_view transform) {
  if (count == kAutotune) return std::clamp<std::size_t>(usable_cores(), 2, 8);
  check_argument(count >= 1, base::str_cat(transform, ": ", count,
                                           " elements to prefetch; it must be 1 or more, or "
                                           "kAutotune"));
  return static_cast<std::size_t>(std::min(count, kMaxDepth));
}

}  // namespace brigade::data
