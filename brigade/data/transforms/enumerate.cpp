#include "brigade/data/transforms/enumerate.h"

#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_enumerate(std::int64_t start) {
  return base::str_cat("enumerate(", start, ")");
}

std::int64_t number_of_element(std::int64_t start, std::uint64_t index) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + index);
}

}  // namespace brigade::data::internal
