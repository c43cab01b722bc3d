#include "brigade/data/transforms/enumerate.h"

#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_enumerate(std::int64_t start) {
  return base::str_cat("enumerate(", start, ")");
}

std::int64_t number_of_element(std::int64_t start, std::uint64_t place) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + place);
}

}  // namespace brigade::data::internal
