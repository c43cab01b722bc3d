#include "brigade/data/interleave/inner_iterator.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"

namespace brigade::data::internal {

void rethrow_in_inner(const std::string& where, std::uint64_t epoch, std::uint64_t element) {
  rethrow_with_context(
      base::str_cat(where, ", in the dataset of element ", element, " of epoch ", epoch, ": "));
}

void throw_inner_too_short(const std::string& where, std::uint64_t element) {
  throw Error(
      ErrorCode::kInvalidArgument,
      base::str_cat("The saved position is in the dataset that ", where, " makes from element ",
                    element, ", which now has fewer elements: was it saved from other data?"));
}

}  // namespace brigade::data::internal
