#include "brigade/data/sources/from_generator.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void throw_generator_too_short(std::uint64_t index, const std::string& name) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The saved position is after element ", index, " of ", name,
                            ", which now gives fewer: was it saved from other data?"));
}

}  // namespace brigade::data::internal
