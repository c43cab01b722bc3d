#include "brigade/data/padding.h"

#include "brigade/base/error.h"

namespace brigade::data::internal {

void check_padded_length(std::optional<std::int64_t> length) {
  if (!length || *length >= 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("padding: length is ", *length,
                            "; it must be 0 or more, or unset for the longest of each batch"));
}

std::size_t padded_length(std::optional<std::int64_t> length, std::size_t longest) {
  if (!length) return longest;
  const auto target = static_cast<std::size_t>(*length);
  if (longest <= target) return target;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("An element of length ", longest, " cannot be padded to length ",
                            target, ": pad to more, or cut it before"));
}

}  // namespace brigade::data::internal
