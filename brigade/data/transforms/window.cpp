#include "brigade/data/transforms/window.h"

#include <string_view>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

void check_at_least_one(std::string_view what, std::int64_t value) {
  check_argument(value >= 1, "window: ", what, " is ", value, "; it must be 1 or more");
}

}  // namespace

WindowShape shape_of_window(std::int64_t size, const WindowOptions& options) {
  check_at_least_one("size", size);
  check_at_least_one("shift", options.shift.value_or(size));
  check_at_least_one("stride", options.stride);
  const auto stride = static_cast<std::uint64_t>(options.stride);
  const std::uint64_t to_last = saturating_multiply(static_cast<std::uint64_t>(size - 1), stride);
  return {.shift = static_cast<std::uint64_t>(options.shift.value_or(size)),
          .stride = stride,
          .span = saturating_add(to_last, 1),
          .remainder = options.remainder};
}

std::string name_of_window(std::int64_t size, const WindowOptions& options) {
  std::string name = base::str_cat("window(", size);
  if (options.shift && *options.shift != size) name += base::str_cat(", shift ", *options.shift);
  if (options.stride != 1) name += base::str_cat(", stride ", options.stride);
  if (options.remainder == Remainder::kDrop) name += ", without remainder";
  return name + ")";
}

std::uint64_t count_windows(std::uint64_t elements, const WindowShape& shape) {
  if (shape.remainder == Remainder::kDrop) {
    return elements < shape.span ? 0 : (elements - shape.span) / shape.shift + 1;
  }
  return elements == 0 ? 0 : (elements - 1) / shape.shift + 1;
}

std::int64_t cardinality_of_window(std::int64_t input, const WindowShape& shape) {
  if (input < 0) return input;
  return static_cast<std::int64_t>(count_windows(static_cast<std::uint64_t>(input), shape));
}

}  // namespace brigade::data::internal
