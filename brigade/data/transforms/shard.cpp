#include "brigade/data/transforms/shard.h"

#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_shard(std::int64_t count, std::int64_t index) {
  check_shard(count, index, "shard");
  return base::str_cat("shard(", count, ", ", index, ")");
}

}  // namespace brigade::data::internal
