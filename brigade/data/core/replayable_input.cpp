#include "brigade/data/core/replayable_input.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void throw_replay_past_end(std::uint64_t index) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The saved position is after element ", index,
                            " of an input that now has fewer: was it saved from other data?"));
}

}  // namespace brigade::data::internal
