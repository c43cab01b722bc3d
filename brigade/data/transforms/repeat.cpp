#include "brigade/data/transforms/repeat.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

std::string name_of_repeat(std::int64_t count) {
  if (count == kForever) return "repeat()";
  check_argument(count >= 0, "repeat: count is ", count,
                 "; it must be 0 or more, or kForever (-1)");
  return base::str_cat("repeat(", count, ")");
}

IteratorOptions options_of_pass(IteratorOptions options, std::int64_t count, std::uint64_t pass) {
  constexpr std::uint64_t kPassesOfEndlessEpoch = std::uint64_t{1} << 32;
  const auto passes = count == kForever ? kPassesOfEndlessEpoch : static_cast<std::uint64_t>(count);
  options.epoch = options.epoch * passes + pass;
  return options;
}

}  // namespace brigade::data::internal
