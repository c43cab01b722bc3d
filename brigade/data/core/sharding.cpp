#include "brigade/data/core/sharding.h"

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"

namespace brigade::data {

void check_shard(std::int64_t count, std::int64_t index, std::string_view who) {
  check_argument(count >= 1 && index >= 0 && index < count, who, ": shard ", index, " of ", count,
                 " does not exist; there must be 1 or more, counted from 0");
}

std::string describe(const Shard& shard) {
  if (shard.count == 1) return "the whole";
  return base::str_cat("shard ", shard.index, " of ", shard.count, " by ",
                       shard.by == ShardBy::kFiles ? "files" : "hint");
}

std::uint64_t key_in_shard(std::uint64_t key, const Shard& shard) {
  if (shard.count == 1) return key;
  return base::derive_seed(key, "shard", static_cast<std::uint64_t>(shard.index), 0);
}

}  // namespace brigade::data
