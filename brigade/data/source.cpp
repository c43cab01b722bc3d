#include "brigade/data/source.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {

namespace internal {

void check_source_size(std::int64_t size, const std::string& name) {
  if (size >= 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(name, ": size is ", size, "; it must be 0 or more"));
}

void check_source_position(std::uint64_t index, std::int64_t size, const std::string& name) {
  if (index <= static_cast<std::uint64_t>(size)) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The saved position is element ", index, " of ", name,
                            ", which has only ", size, ": was it saved from other data?"));
}

}  // namespace internal

Dataset<std::int64_t> range(std::int64_t size) {
  return from_indexed<std::int64_t>(
      size, [](std::int64_t index) { return index; }, base::str_cat("range(", size, ")"));
}

}  // namespace brigade::data
