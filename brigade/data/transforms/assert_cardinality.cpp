#include "brigade/data/transforms/assert_cardinality.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

constexpr std::string_view kAdvice = ": fix the data, or the number passed to assert_cardinality";

std::string expected_text(const std::string& where, std::int64_t expected) {
  const std::string count =
      expected == kInfinite ? "elements without end" : base::str_cat(expected, " elements");
  return base::str_cat(where, " was expected to have ", count, ", but it has ");
}

}  // namespace

std::string name_of_assert_cardinality(std::int64_t count) {
  check_argument(count >= 0 || count == kInfinite, "assert_cardinality: count is ", count,
                 "; it must be 0 or more, or kInfinite");
  if (count == kInfinite) return "assert_cardinality(infinite)";
  return base::str_cat("assert_cardinality(", count, ")");
}

void throw_too_few(const std::string& where, std::int64_t expected, std::uint64_t found) {
  throw Error(ErrorCode::kFailedPrecondition, expected_text(where, expected), "only ", found,
              kAdvice);
}

void throw_too_many(const std::string& where, std::int64_t expected) {
  throw Error(ErrorCode::kFailedPrecondition, expected_text(where, expected), "more", kAdvice);
}

}  // namespace brigade::data::internal
