#include "brigade/data/transforms/batch.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/transforms/rebatch.h"

namespace brigade::data::internal {

std::string name_of_batch(std::int64_t size, const BatchOptions& options) {
  check_argument(size >= 1, "batch: size is ", size, "; it must be 1 or more");
  const bool is_dropped = options.remainder == Remainder::kDrop;
  return base::str_cat("batch(", size, is_dropped ? ", without remainder)" : ")");
}

std::string fixed_name_of_batch(const BatchOptions& options) {
  return options.remainder == Remainder::kDrop ? "batch(without remainder)" : "batch";
}

std::string name_of_padded_batch(std::int64_t size, std::string_view padding, Remainder remainder) {
  check_argument(size >= 1, "padded_batch: size is ", size, "; it must be 1 or more");
  const bool is_dropped = remainder == Remainder::kDrop;
  return base::str_cat("padded_batch(", size, padding, is_dropped ? ", without remainder)" : ")");
}

TransformSpec spec_of_batch(std::string name, std::string fixed, std::int64_t size,
                            Remainder remainder) {
  const bool is_dropped = remainder == Remainder::kDrop;
  return {.name = std::move(name),
          .fixed = std::move(fixed),
          .cardinality =
              [=](std::int64_t input) { return cardinality_of_batch(input, size, is_dropped); },
          .counts_elements = is_dropped};  // each shard drops its own remainder
}

std::string name_of_rebatch(const std::vector<std::int64_t>& sizes, const BatchOptions& options) {
  check_argument(!sizes.empty(), "rebatch: the list of sizes is empty; give one size or more");
  for (const std::int64_t size : sizes) {
    check_argument(size >= 1, "rebatch: size is ", size, "; it must be 1 or more");
  }
  const bool is_dropped = options.remainder == Remainder::kDrop;
  return base::str_cat("rebatch(", base::join(sizes, ", "),
                       is_dropped ? ", without remainder)" : ")");
}

}  // namespace brigade::data::internal
