#include "brigade/data/transforms/concatenate.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

void check_part(std::uint64_t part) {
  check_argument(part <= 1, base::str_cat("A saved position of concatenate is broken: it is in "
                                          "input ",
                                          part, ", counted from 0, of two"));
}

}  // namespace brigade::data::internal
