#include "brigade/data/core/indexed_source.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void check_source_size(std::int64_t size, const std::string& name) {
  if (size >= 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(name, ": size is ", size, "; it must be 0 or more"));
}

std::int64_t number_at(std::int64_t start, std::int64_t step, std::int64_t index) {
  // In unsigned numbers, where passing the largest is no error.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                   static_cast<std::uint64_t>(index) *
                                       static_cast<std::uint64_t>(step));
}

}  // namespace brigade::data::internal
