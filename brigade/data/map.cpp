#include "brigade/data/map.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/error_place.h"

namespace brigade::data::internal {

std::string name_of_map(const MapOptions& options) {
  if (!options.seed) return options.name;
  return base::str_cat(options.name, "(seed ", *options.seed, ")");
}

std::uint64_t key_of_map(const MapOptions& options, const IteratorOptions& job,
                         std::uint64_t depth) {
  const std::uint64_t key = options.seed ? base::derive_seed(*options.seed, "map", 0, job.epoch)
                                         : base::derive_seed(job.seed, "map", depth, job.epoch);
  return key_in_shard(key, job.shard);
}

void rethrow_at_element(const std::string& where, std::uint64_t epoch, std::uint64_t index) {
  rethrow_with_place(base::str_cat(where, ", element ", index, " of epoch ", epoch, ": "));
}

}  // namespace brigade::data::internal
