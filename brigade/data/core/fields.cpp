#include "brigade/data/core/fields.h"

#include "brigade/base/error.h"

namespace brigade::data::internal {

std::int64_t size_of_parts(const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes) {
    check_argument(size == sizes.front(),
                   "The parts of a batch must have the same number of elements: one has ",
                   sizes.front(), ", another ", size);
  }
  return sizes.front();
}

}  // namespace brigade::data::internal
