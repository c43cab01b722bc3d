#include "brigade/input/split.h"

#include "brigade/base/error.h"

namespace brigade::input {

std::vector<std::int64_t> split_sizes(std::int64_t total, std::int64_t parts) {
  check_argument(total >= 0 && parts >= 1, "split: ", total, " examples over ", parts,
                 " parts; there must be 0 examples or more and 1 part or more");
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), total / parts);
  for (std::int64_t i = 0; i < total % parts; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

}  // namespace brigade::input
