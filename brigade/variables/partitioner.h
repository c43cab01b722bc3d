#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace brigade::variables {

/// The number of partitions of each axis of a variable, one number per dimension; at most one axis
/// may have more than one. Empty: the variable is not partitioned.
using Partitioner =
    std::function<std::vector<std::int64_t>(at::IntArrayRef shape, at::ScalarType dtype)>;

/// `parts` partitions along `axis`, but at most as many as the axis has elements. TensorFlow:
/// fixed_size_partitioner. Throws kInvalidArgument unless `parts` is positive.
Partitioner fixed_size_partitioner(std::int64_t parts, std::int64_t axis = 0);

/// Options of `variable_axis_size_partitioner`.
struct VariableAxisSizeOptions {
  /// The axis that is divided.
  std::int64_t axis = 0;
  /// The maximum size of a partition, as long as `max_parts` allows it.
  std::int64_t max_part_bytes = 64 << 20;
  /// 0: no limit.
  std::int64_t max_parts = 0;
};
/// The fewest partitions such that none exceeds a size. TensorFlow: variable_axis_size_partitioner.
Partitioner variable_axis_size_partitioner(const VariableAxisSizeOptions& options);

/// Options of `min_max_variable_partitioner`.
struct MinMaxOptions {
  /// The most partitions, of variables that are large enough.
  std::int64_t max_parts = 1;
  /// The axis that is divided.
  std::int64_t axis = 0;
  /// The minimum size of a partition.
  std::int64_t min_part_bytes = 256 << 10;
};
/// The most partitions such that each has at least a size. TensorFlow:
/// min_max_variable_partitioner.
Partitioner min_max_variable_partitioner(const MinMaxOptions& options);

/// The sizes of `parts` partitions of `size` elements: they differ by at most one, larger ones
/// first (10 into 3 is 4, 3, 3), as TensorFlow's "div".
std::vector<std::int64_t> part_sizes(std::int64_t size, std::int64_t parts);

}  // namespace brigade::variables
