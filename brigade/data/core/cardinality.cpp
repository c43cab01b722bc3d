#include "brigade/data/core/cardinality.h"

#include <algorithm>
#include <limits>

#include "brigade/base/error.h"

namespace brigade::data {

std::int64_t cardinality_of_take(std::int64_t input, std::int64_t count) {
  if (count == 0) return 0;
  if (input == kInfinite) return count;
  if (input == kUnknown) return kUnknown;
  return std::min(input, count);
}

std::int64_t cardinality_of_skip(std::int64_t input, std::int64_t count) {
  if (input < 0) return input;
  return std::max<std::int64_t>(input - count, 0);
}

std::int64_t cardinality_of_repeat(std::int64_t input, std::int64_t count) {
  if (input == 0 || count == 0) return 0;
  if (count < 0 || input == kInfinite) return kInfinite;
  if (input == kUnknown) return kUnknown;
  std::int64_t product = 0;
  check_argument(!__builtin_mul_overflow(input, count, &product), "repeat: ", count,
                 " passes over ", input,
                 " elements are more than can be counted; use repeat() forever");
  return product;
}

std::int64_t cardinality_of_batch(std::int64_t input, std::int64_t size, bool drops_remainder) {
  if (input < 0) return input;
  const bool is_rounded_up = !drops_remainder && input % size != 0;
  return input / size + (is_rounded_up ? 1 : 0);
}

std::int64_t cardinality_of_shard(std::int64_t input, std::int64_t count, std::int64_t index) {
  if (input < 0) return input;
  return input <= index ? 0 : (input - index - 1) / count + 1;
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::numeric_limits<std::uint64_t>::max();
  return sum;
}

std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::numeric_limits<std::uint64_t>::max();
  return product;
}

}  // namespace brigade::data
