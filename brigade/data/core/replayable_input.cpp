#include "brigade/data/core/noted_input.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void throw_noted_input_too_short(std::uint64_t place) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The saved position lies behind element ", place,
                            " of an input that now has fewer: was it saved from other data?"));
}

}  // namespace brigade::data::internal
