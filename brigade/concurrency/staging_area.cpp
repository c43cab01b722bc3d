#include "brigade/concurrency/staging_area.h"

#include "brigade/base/strings.h"

namespace brigade::concurrency {

void throw_staging_wait_over(const std::string& area, const std::string& what,
                             const StagingWait& wait) {
  wait.cancel.throw_if_cancelled(base::str_cat(area, ": waiting for ", what));
  throw Error(ErrorCode::kDeadlineExceeded, area, ": waited ",
              wait.timeout.value_or(std::chrono::milliseconds(0)).count(), " ms for ", what,
              ": the stage that was to ", what == "room" ? "take elements out" : "put elements in",
              " is slower than that, or gone.");
}

void check_staging_options(const StagingAreaOptions& options, bool tells_sizes) {
  check_argument(options.memory_limit == 0 || tells_sizes, options.name, ": a memory_limit of ",
                 options.memory_limit,
                 " bytes needs a function that returns the size of an element.");
}

void check_staging_size(const StagingAreaOptions& options, std::size_t bytes) {
  if (options.memory_limit == 0 || bytes <= options.memory_limit) return;
  throw Error(ErrorCode::kResourceExhausted, options.name, ": an element of ", bytes,
              " bytes cannot be put in under a memory_limit of ", options.memory_limit,
              " bytes: raise it, or make smaller batches.");
}

}  // namespace brigade::concurrency
