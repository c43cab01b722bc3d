#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/dataset.h"

/// Small datasets of numbers, for tests of transforms. For tests only.
namespace brigade::data::testing {

/// `count` elements: first, first + 1, ...
inline Dataset<std::int64_t> numbers_from(std::int64_t first, std::int64_t count) {
  return range(count).map([first](std::int64_t x) { return first + x; });
}

/// x % 4 elements: 10 x, 10 x + 1, ...
inline Dataset<std::int64_t> tens(std::int64_t x) {
  return numbers_from(10 * x, x % 4);
}

/// Five elements: 10 x, 10 x + 1, ...
inline Dataset<std::int64_t> fives(std::int64_t x) {
  return numbers_from(10 * x, 5);
}

/// A hundred elements: 100 x, 100 x + 1, ...
inline Dataset<std::int64_t> hundreds(std::int64_t x) {
  return numbers_from(100 * x, 100);
}

inline bool is_even(std::int64_t x) {
  return x % 2 == 0;
}

inline std::vector<std::int64_t> sorted(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace brigade::data::testing
