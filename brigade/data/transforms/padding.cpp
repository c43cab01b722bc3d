#include "brigade/data/transforms/padding.h"

#include <string_view>

#include "brigade/base/error.h"

namespace brigade::data::internal {

void check_padded_length(std::optional<std::int64_t> length) {
  check_argument(!length || *length >= 0, "padding: length is ", length.value_or(0),
                 "; it must be 0 or more, or unset for the longest of each batch");
}

std::size_t padded_length(std::optional<std::int64_t> length, std::size_t longest) {
  if (!length) return longest;
  const auto target = static_cast<std::size_t>(*length);
  if (longest <= target) return target;
  refuse("An element of length ", longest, " cannot be padded to length ", target,
         ": pad to more, or truncate it before");
}

std::string describe_parts(const std::vector<std::string>& parts) {
  static constexpr std::string_view kComma = ", ";  // every description begins with it
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    text += base::str_cat(", part ", i, " (", parts[i].substr(kComma.size()), ")");
  }
  return text;
}

}  // namespace brigade::data::internal
