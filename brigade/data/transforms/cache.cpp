#include "brigade/data/transforms/cache.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

void warn(const std::string& text) noexcept {
  try {
    base::log_warning(text);
  } catch (...) {  // a failing log must not end the training
  }
}

}  // namespace

void check_cache_input(std::int64_t cardinality, const std::string& describe) {
  check_argument(cardinality != kInfinite, describe,
                 ": the input never ends, and a cache holds complete passes; put repeat after it");
}

IteratorOptions options_of_cached(IteratorOptions options) {
  options.epoch = 0;
  options.batch_memory = BatchMemory::kPageable;  // a whole pass of batches is not pinned
  return options;
}

void throw_cached_input_too_short(std::uint64_t index) {
  throw_data_too_short(base::str_cat("The saved position is after ", index,
                                     " elements of a cache, but its input now has fewer"));
}

void warn_of_partial_pass(const std::string& cache, std::uint64_t elements) noexcept {
  warn(base::str_cat("A pass over ", cache, " ended after ", elements,
                     " elements, before the input did: they are dropped, and the next pass reads "
                     "the input again. To use only a part of the input, put take before cache."));
}

void warn_of_failed_element(const std::string& cache) noexcept {
  warn(base::str_cat("An element failed in a pass over ", cache,
                     ": its elements are not cached, and the next pass reads the input again."));
}

}  // namespace brigade::data::internal
