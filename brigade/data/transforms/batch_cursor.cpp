#include "brigade/data/transforms/batch_cursor.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void throw_batch_too_short(std::uint64_t index, std::int64_t size) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The saved position is after element ", index,
                            " of a batch that now has ", size, ": was it saved from other data?"));
}

}  // namespace brigade::data::internal
