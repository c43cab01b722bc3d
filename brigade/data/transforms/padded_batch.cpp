#include "brigade/data/transforms/padded_batch.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_padded_batch(std::int64_t size, std::string_view padding, Remainder remainder) {
  check_argument(size >= 1,
                 base::str_cat("padded_batch: size is ", size, "; it must be 1 or more"));
  const bool is_dropped = remainder == Remainder::kDrop;
  return base::str_cat("padded_batch(", size, padding, is_dropped ? ", without remainder)" : ")");
}

}  // namespace brigade::data::internal
