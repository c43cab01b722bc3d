#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace brigade::variables {

/// Says into how many parts each axis of a variable is cut; at most one axis into more than one.
/// The result has one number a dimension. Empty: the variable stays whole.
using Partitioner =
    std::function<std::vector<std::int64_t>(at::IntArrayRef shape, at::ScalarType dtype)>;

/// `parts` parts along `axis`, never more than the axis has elements. TensorFlow:
/// fixed_size_partitioner. Throws kInvalidArgument unless `parts` is positive.
Partitioner fixed_size_partitioner(std::int64_t parts, std::int64_t axis = 0);

struct VariableAxisSizeOptions {
  std::int64_t axis = 0;
  /// No part is larger, as long as `max_parts` allows it.
  std::int64_t max_part_bytes = 64 << 20;
  /// 0: no limit.
  std::int64_t max_parts = 0;
};
/// As few parts as keep each within a size. TensorFlow: variable_axis_size_partitioner.
Partitioner variable_axis_size_partitioner(const VariableAxisSizeOptions& options);

struct MinMaxOptions {
  std::int64_t max_parts = 1;
  std::int64_t axis = 0;
  /// No part is smaller.
  std::int64_t min_part_bytes = 256 << 10;
};
/// As many parts as keep each above a size. TensorFlow: min_max_variable_partitioner.
Partitioner min_max_variable_partitioner(const MinMaxOptions& options);

/// Sizes of `parts` parts of `size` elements: they differ by at most one, larger ones first (10 in
/// 3 is 4, 3, 3), as TensorFlow's "div".
std::vector<std::int64_t> part_sizes(std::int64_t size, std::int64_t parts);

}  // namespace brigade::variables
