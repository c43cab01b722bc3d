#include "brigade/data/core/source.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

/// b - a for a <= b, which need not fit into 64 signed bits.
std::uint64_t distance(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
}

std::int64_t size_of_range(std::int64_t start, std::int64_t stop, std::int64_t step,
                           const std::string& name) {
  check_argument(step != 0, name, ": step is 0; it must be another number");
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  if (is_empty) return 0;
  const std::uint64_t width = step > 0 ? distance(start, stop) : distance(stop, start);
  const std::uint64_t stride = step > 0 ? distance(0, step) : distance(step, 0);
  const std::uint64_t size = (width - 1) / stride + 1;
  check_argument(std::in_range<std::int64_t>(size), name,
                 " has more numbers than can be counted: take a larger step");
  return static_cast<std::int64_t>(size);
}

}  // namespace

Dataset<std::int64_t> range(std::int64_t size) {
  return from_indexed<std::int64_t>(
      size, [](std::int64_t index) { return index; }, base::str_cat("range(", size, ")"));
}

Dataset<std::int64_t> range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  std::string name = base::str_cat("range(", start, ", ", stop, ", ", step, ")");
  const std::int64_t size = size_of_range(start, stop, step, name);
  return from_indexed<std::int64_t>(
      size, [start, step](std::int64_t index) { return internal::number_at(start, step, index); },
      std::move(name));
}

void internal::check_source_size(std::int64_t size, const std::string& name) {
  check_argument(size >= 0, name, ": size is ", size, "; it must be 0 or more");
}

std::int64_t internal::number_at(std::int64_t start, std::int64_t step, std::int64_t index) {
  // In unsigned numbers, where passing the largest is no error.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                   static_cast<std::uint64_t>(index) *
                                       static_cast<std::uint64_t>(step));
}

}  // namespace brigade::data
