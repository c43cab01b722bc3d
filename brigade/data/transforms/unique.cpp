#include "brigade/data/transforms/unique.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void throw_unique_too_short(std::uint64_t count) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The position saved in unique is after element ", count,
                            " of an input that now has fewer: was it saved from other data?"));
}

}  // namespace brigade::data::internal
