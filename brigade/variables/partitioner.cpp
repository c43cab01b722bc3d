#include "brigade/variables/partitioner.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::variables {
namespace {

void check_axis(const char* partitioner, std::int64_t axis, at::IntArrayRef shape) {
  const auto dimensions = static_cast<std::int64_t>(shape.size());
  if (axis >= 0 && axis < dimensions) return;
  refuse(partitioner, ": the variable's shape is ", shape, ", which has no axis ", axis,
         "; expected one from 0 to below ", dimensions);
}

void check_positive(const char* partitioner, const char* what, std::int64_t value) {
  if (value >= 1) return;
  refuse(partitioner, ": ", what, " is ", value, "; expected 1 or more");
}

std::int64_t bytes_of(at::IntArrayRef shape, at::ScalarType dtype) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  for (const auto size : shape) bytes *= size;
  return bytes;
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

/// One partition for every axis except `axis`. An axis without elements still has one partition.
std::vector<std::int64_t> cut(at::IntArrayRef shape, std::int64_t axis, std::int64_t parts) {
  std::vector<std::int64_t> result(shape.size(), 1);
  const auto index = static_cast<std::size_t>(axis);
  result[index] = std::max<std::int64_t>(1, std::min(parts, shape[index]));
  return result;
}

}  // namespace

Partitioner fixed_size_partitioner(std::int64_t parts, std::int64_t axis) {
  check_positive("fixed_size_partitioner", "parts", parts);
  return [parts, axis](at::IntArrayRef shape, at::ScalarType /*dtype*/) {
    check_axis("fixed_size_partitioner", axis, shape);
    return cut(shape, axis, parts);
  };
}

Partitioner variable_axis_size_partitioner(const VariableAxisSizeOptions& options) {
  constexpr auto kName = "variable_axis_size_partitioner";
  check_positive(kName, "max_part_bytes", options.max_part_bytes);
  if (options.max_parts != 0) check_positive(kName, "max_parts", options.max_parts);
  return [options](at::IntArrayRef shape, at::ScalarType dtype) {
    check_axis(kName, options.axis, shape);
    const auto slices = shape[static_cast<std::size_t>(options.axis)];
    const auto bytes = bytes_of(shape, dtype);
    if (bytes == 0) return cut(shape, options.axis, 1);
    // A partition of one slice may still be too large: it cannot be smaller along one axis.
    const auto slices_a_part = std::max<std::int64_t>(1, options.max_part_bytes / (bytes / slices));
    const auto parts = divide_up(slices, slices_a_part);
    return cut(shape, options.axis,
               options.max_parts == 0 ? parts : std::min(parts, options.max_parts));
  };
}

Partitioner min_max_variable_partitioner(const MinMaxOptions& options) {
  constexpr auto kName = "min_max_variable_partitioner";
  check_positive(kName, "max_parts", options.max_parts);
  check_positive(kName, "min_part_bytes", options.min_part_bytes);
  return [options](at::IntArrayRef shape, at::ScalarType dtype) {
    check_axis(kName, options.axis, shape);
    // Rounded up, as in TensorFlow: the last partition may be smaller than the minimum.
    const auto parts = divide_up(bytes_of(shape, dtype), options.min_part_bytes);
    return cut(shape, options.axis, std::min(parts, options.max_parts));
  };
}

std::vector<std::int64_t> part_sizes(std::int64_t size, std::int64_t parts) {
  check_positive("part_sizes", "parts", parts);
  if (size < 0) refuse("part_sizes: size is ", size, "; expected 0 or more");
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), size / parts);
  std::for_each_n(sizes.begin(), size % parts, [](std::int64_t& part) { ++part; });
  return sizes;
}

}  // namespace brigade::variables
